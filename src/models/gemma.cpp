// Layers that see a window alternate with layers that see everything; every
// sublayer is normalised on its way in and on its way out. Sources: Gemma 2,
// arXiv:2408.00118 (soft caps); Gemma 3, arXiv:2503.19786 (norms of q and k, and
// a rotary base of their own for the layers with a window).
#include "models/gemma.h"

#include <cmath>

#include "models/decoder_config.h"
#include "models/layer_loader.h"
#include "nn/rope.h"

namespace tandem {

namespace {

struct Config : DecoderConfig {
  bool gemma3, attention_bias;
  int window;
  std::vector<std::string> layer_types;
  RopeConfig rope, sliding_rope;
  float attention_scale, attention_softcap, logit_softcap;
};

std::string type_by_pattern(const ConfigReader& in, int layer) {
  const bool gemma2 = in.text("model_type", "") == "gemma2";
  const int64_t pattern =
      in.integer("sliding_window_pattern", in.integer("_sliding_window_pattern", gemma2 ? 2 : 6));
  return pattern > 0 && (layer + 1) % pattern == 0 ? "full_attention" : "sliding_attention";
}

RopeConfig sliding_rope(const ConfigReader& in, const Config& c) {
  if (!c.gemma3 || in.has("rope_parameters")) return in.rope(c.head_dim, "sliding_attention");
  return {.dims = c.head_dim, .theta = in.number("rope_local_base_freq", 10000)};
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader in = text_config(checkpoint);
  Config c{read_decoder_config(in, /*tied_default=*/true)};
  c.gemma3 = c.model_type != "gemma2";
  c.attention_bias = in.flag("attention_bias", false);
  c.activation =
      in.has("hidden_activation") || in.has("hidden_act") ? in.activation() : Activation::kGeluTanh;
  c.window = in.count("sliding_window", 1 << 30);
  c.layer_types =
      layer_types(in, c.layers, {"sliding_attention", "full_attention"}, type_by_pattern);
  c.rope = in.rope(c.head_dim, "full_attention");
  c.sliding_rope = sliding_rope(in, c);
  const double scalar = in.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) in.fail("query_pre_attn_scalar", "above 0");
  c.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  c.attention_softcap = static_cast<float>(in.number("attn_logit_softcapping", c.gemma3 ? 0 : 50));
  c.logit_softcap = static_cast<float>(in.number("final_logit_softcapping", c.gemma3 ? 0 : 30));
  return c;
}

struct Block {
  Weight input_norm, post_attention_norm, pre_feedforward_norm, post_feedforward_norm;
  SelfAttention attention;
  GatedMlp mlp;
};

class Gemma : public Model {
 public:
  Gemma(const Config& config, Checkpoint& checkpoint, Backend& backend);
  Tensor forward(Backend& be, const Step& step) const override;

 private:
  Block load_block(int layer, LayerLoader& in);
  SelfAttention load_attention(int layer, const std::string& prefix, LayerLoader& in);

  Config config_;
  Rope rope_, sliding_rope_;
  DecoderEnds ends_;
  std::vector<Block> blocks_;
};

Gemma::Gemma(const Config& config, Checkpoint& checkpoint, Backend& be)
    : config_(config),
      rope_(make_rope(config.rope)),
      sliding_rope_(make_rope(config.sliding_rope)) {
  info_ = config_.info();
  LayerLoader in(checkpoint, be, /*norm_offset=*/1);
  ends_ = in.ends(config_.vocab_size, config_.hidden_size, config_.tied);
  for (int layer = 0; layer < config_.layers; ++layer) blocks_.push_back(load_block(layer, in));
}

Block Gemma::load_block(int layer, LayerLoader& in) {
  const Config& c = config_;
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  return {.input_norm = in.norm(prefix + "input_layernorm", c.hidden_size),
          .post_attention_norm = in.norm(prefix + "post_attention_layernorm", c.hidden_size),
          .pre_feedforward_norm = in.norm(prefix + "pre_feedforward_layernorm", c.hidden_size),
          .post_feedforward_norm = in.norm(prefix + "post_feedforward_layernorm", c.hidden_size),
          .attention = load_attention(layer, prefix + "self_attn.", in),
          .mlp = in.mlp(prefix + "mlp.", c.hidden_size, c.intermediate_size, c.activation)};
}

SelfAttention Gemma::load_attention(int layer, const std::string& prefix, LayerLoader& in) {
  const Config& c = config_;
  const bool sliding = c.layer_types[layer] == "sliding_attention";
  SelfAttention attention = in.attention(prefix, {.dim = c.hidden_size,
                                                  .heads = c.heads,
                                                  .kv_heads = c.kv_heads,
                                                  .head_dim = c.head_dim,
                                                  .qkv_bias = c.attention_bias,
                                                  .out_bias = c.attention_bias,
                                                  .head_norms = c.gemma3,
                                                  .norm_eps = c.rms_norm_eps});
  attention.qkv_options.rope = sliding ? &sliding_rope_ : &rope_;
  attention.attention_options.scale = c.attention_scale;
  attention.attention_options.softcap = c.attention_softcap;
  attention.attention_options.window = sliding ? c.window : 0;
  attention.kv = add_kv_layer(info_,
                              {.kv_heads = c.kv_heads,
                               .k_dim = c.head_dim,
                               .v_dim = c.head_dim,
                               .window = sliding ? c.window : 0},
                              sliding ? sliding_cache() : full_cache());
  return attention;
}

Tensor Gemma::forward(Backend& be, const Step& step) const {
  const NormOptions into{.eps = config_.rms_norm_eps};
  const NormOptions out_of{.eps = config_.rms_norm_eps, .for_linear = false};
  const float scale = std::sqrt(static_cast<float>(config_.hidden_size));
  Tensor x = be.embed(ends_.embedding, scale, step);
  for (const Block& block : blocks_) {
    Tensor y = block.attention.forward(be, be.norm(x, block.input_norm, into), {}, step);
    x = be.add(x, be.norm(y, block.post_attention_norm, out_of));
    y = block.mlp.forward(be, be.norm(x, block.pre_feedforward_norm, into), {});
    x = be.add(x, be.norm(y, block.post_feedforward_norm, out_of));
  }
  x = be.norm(be.select_outputs(x, step), ends_.norm, into);
  return be.head(x, ends_.head, 1.0f, config_.logit_softcap);
}

}  // namespace

std::unique_ptr<Model> make_gemma(Checkpoint& checkpoint, Backend& backend) {
  return std::make_unique<Gemma>(read_config(checkpoint), checkpoint, backend);
}

}  // namespace tandem
