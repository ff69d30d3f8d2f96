// Most layers mix tokens by a gated convolution over the last few, some by
// attention. Source: LFM2, arXiv:2511.23404.
#include "models/lfm2.h"

#include <algorithm>

#include "models/decoder_config.h"
#include "models/layer_loader.h"
#include "nn/rope.h"
#include "nn/short_conv.h"

namespace tandem {

namespace {

struct Config : DecoderConfig {
  std::vector<std::string> layer_types;
  RopeConfig rope;
  int conv_width = 0;
};

std::string type_by_index(const ConfigReader& in, int layer) {
  const std::vector<int32_t> full = in.ids("full_attn_idxs");
  const bool attends = full.empty() || std::ranges::count(full, layer) > 0;
  return attends ? "full_attention" : "conv";
}

// The feed-forward's width comes of block_ff_dim by the release's own rule.
int feed_forward_size(const ConfigReader& in, int given) {
  int64_t size = in.has("block_ff_dim") ? in.count("block_ff_dim", 1 << 24) : given;
  if (!in.flag("block_auto_adjust_ff_dim", true)) return static_cast<int>(size);
  size = 2 * size / 3;
  size = static_cast<int64_t>(in.number("block_ffn_dim_multiplier", 1) * static_cast<double>(size));
  const int64_t multiple =
      in.has("block_multiple_of") ? in.count("block_multiple_of", 1 << 20) : 256;
  return static_cast<int>((size + multiple - 1) / multiple * multiple);
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader in = text_config(checkpoint);
  Config c{read_decoder_config(in, /*tied_default=*/true)};
  c.tied = in.flag("tie_embedding", c.tied);
  c.rms_norm_eps = static_cast<float>(in.number("norm_eps", 1e-5));
  c.intermediate_size = feed_forward_size(in, c.intermediate_size);
  c.layer_types = layer_types(in, c.layers, {"conv", "full_attention"}, type_by_index);
  c.rope = in.rope(c.head_dim);
  c.conv_width = in.has("conv_L_cache") ? in.count("conv_L_cache", 16) : 3;
  if (c.conv_width < 2) in.fail("conv_L_cache", "at least 2");
  if (in.flag("conv_bias", false)) in.fail("conv_bias", "false");
  return c;
}

struct Block {
  Weight operator_norm, ffn_norm;
  SelfAttention attention;
  ShortConv conv;
  bool convolves = false;
  GatedMlp mlp;
};

class Lfm2 : public Model {
 public:
  Lfm2(const Config& config, Checkpoint& checkpoint, Backend& backend);
  Tensor forward(Backend& be, const Step& step) const override;

 private:
  Block load_block(int layer, LayerLoader& in);
  SelfAttention load_attention(const std::string& prefix, LayerLoader& in);
  ShortConv load_conv(const std::string& prefix, LayerLoader& in);

  Config config_;
  Rope rope_;
  DecoderEnds ends_;
  std::vector<Block> blocks_;
};

Lfm2::Lfm2(const Config& config, Checkpoint& checkpoint, Backend& be)
    : config_(config), rope_(make_rope(config.rope)) {
  info_ = config_.info();
  LayerLoader in(checkpoint, be);
  ends_ = in.ends(config_.vocab_size, config_.hidden_size, config_.tied, "model.embedding_norm");
  for (int layer = 0; layer < config_.layers; ++layer) blocks_.push_back(load_block(layer, in));
}

Block Lfm2::load_block(int layer, LayerLoader& in) {
  const Config& c = config_;
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  Block block;
  block.operator_norm = in.norm(prefix + "operator_norm", c.hidden_size);
  block.ffn_norm = in.norm(prefix + "ffn_norm", c.hidden_size);
  block.convolves = c.layer_types[layer] == "conv";
  if (block.convolves) {
    block.conv = load_conv(prefix + "conv.", in);
  } else {
    block.attention = load_attention(prefix + "self_attn.", in);
  }
  block.mlp = in.mlp(prefix + "feed_forward.", c.hidden_size, c.intermediate_size,
                     Activation::kSilu, false, {.gate = "w1", .up = "w3", .down = "w2"});
  return block;
}

SelfAttention Lfm2::load_attention(const std::string& prefix, LayerLoader& in) {
  const Config& c = config_;
  SelfAttention attention = in.attention(prefix, {.dim = c.hidden_size,
                                                  .heads = c.heads,
                                                  .kv_heads = c.kv_heads,
                                                  .head_dim = c.head_dim,
                                                  .head_norms = true,
                                                  .norm_eps = c.rms_norm_eps,
                                                  .out_name = "out_proj",
                                                  .q_norm_name = "q_layernorm",
                                                  .k_norm_name = "k_layernorm"});
  attention.qkv_options.rope = &rope_;
  attention.kv = add_kv_layer(
      info_, {.kv_heads = c.kv_heads, .k_dim = c.head_dim, .v_dim = c.head_dim}, full_cache());
  return attention;
}

ShortConv Lfm2::load_conv(const std::string& prefix, LayerLoader& in) {
  const int64_t dim = config_.hidden_size;
  const int width = config_.conv_width;
  return {.in = in.matrix(prefix + "in_proj", 3 * dim, dim),
          .taps = in.conv_taps(prefix + "conv.weight", dim, width),
          .out = in.matrix(prefix + "out_proj", dim, dim),
          .width = width,
          .state = add_state_layer(info_, {.conv_floats = dim * (width - 1)})};
}

Tensor Lfm2::forward(Backend& be, const Step& step) const {
  const NormOptions norm{.eps = config_.rms_norm_eps};
  Tensor x = be.embed(ends_.embedding, 1.0f, step);
  for (const Block& block : blocks_) {
    const Tensor y = be.norm(x, block.operator_norm, norm);
    x = block.convolves ? block.conv.forward(be, y, x, step)
                        : block.attention.forward(be, y, x, step);
    x = block.mlp.forward(be, be.norm(x, block.ffn_norm, norm), x);
  }
  return be.head(be.norm(be.select_outputs(x, step), ends_.norm, norm), ends_.head, 1.0f, 0.0f);
}

}  // namespace

std::unique_ptr<Model> make_lfm2(Checkpoint& checkpoint, Backend& backend) {
  return std::make_unique<Lfm2>(read_config(checkpoint), checkpoint, backend);
}

}  // namespace tandem
