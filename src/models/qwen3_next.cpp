// Three of four layers are gated delta-nets with a state of fixed size, the fourth
// is full attention with an output gate and partial rotation. Source: Qwen3-Next's
// release; Gated DeltaNet, arXiv:2412.06464.
#include "models/qwen3_next.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/decoder_config.h"
#include "models/layer_loader.h"
#include "nn/gated_delta.h"
#include "nn/moe.h"
#include "nn/rope.h"

namespace tandem {

namespace {

struct Config : DecoderConfig {
  std::vector<std::string> layer_types;
  RopeConfig rope;
  GatedDeltaOptions delta;
  ExpertConfig experts;
};

std::string type_by_interval(const ConfigReader& in, int layer) {
  const int64_t interval = in.integer("full_attention_interval", 4);
  return interval > 0 && (layer + 1) % interval == 0 ? "full_attention" : "linear_attention";
}

GatedDeltaOptions read_delta(const ConfigReader& in, float eps) {
  GatedDeltaOptions o{.k_heads = in.count("linear_num_key_heads", 1 << 12),
                      .v_heads = in.count("linear_num_value_heads", 1 << 12),
                      .k_dim = in.count("linear_key_head_dim", 1 << 12),
                      .v_dim = in.count("linear_value_head_dim", 1 << 12),
                      .conv_width = in.count("linear_conv_kernel_dim", 16),
                      .norm_eps = eps};
  if (o.v_heads % o.k_heads != 0) {
    in.fail("linear_num_value_heads", "a multiple of linear_num_key_heads");
  }
  if (o.conv_width < 2) in.fail("linear_conv_kernel_dim", "at least 2");
  return o;
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader in = text_config(checkpoint);
  Config c{read_decoder_config(in)};
  c.layer_types =
      layer_types(in, c.layers, {"linear_attention", "full_attention"}, type_by_interval);
  c.rope = in.rope(in.rotated(c.head_dim, 0.25));
  c.delta = read_delta(in, c.rms_norm_eps);
  c.experts = read_expert_config(in, c.layers, /*normalize_default=*/true);
  if (in.flag("attention_bias", false)) in.fail("attention_bias", "false");
  return c;
}

struct Block {
  Weight input_norm, post_attention_norm;
  SelfAttention attention;  // of a full layer
  GatedDeltaNet delta;      // of a linear layer
  bool linear = false;
  FeedForward mlp;
};

class Qwen3Next : public Model {
 public:
  Qwen3Next(const Config& config, Checkpoint& checkpoint, Backend& backend);
  Tensor forward(Backend& be, const Step& step) const override;

 private:
  Block load_block(int layer, LayerLoader& in);
  SelfAttention load_attention(const std::string& prefix, LayerLoader& in);
  GatedDeltaNet load_delta(const std::string& prefix, LayerLoader& in);
  Weight load_delta_inputs(const std::string& prefix, LayerLoader& in) const;
  FeedForward load_mlp(int layer, const std::string& prefix, LayerLoader& in) const;

  Config config_;
  Rope rope_;
  DecoderEnds ends_;
  std::vector<Block> blocks_;
};

// Norms are stored as what is added to 1, but for files that mlx-lm wrote.
float norm_offset(const Checkpoint& checkpoint) {
  const bool converted = checkpoint.config().contains("quantization") ||
                         checkpoint.has("model.layers.0.mlp.switch_mlp.gate_proj.weight");
  return converted ? 0 : 1;
}

Qwen3Next::Qwen3Next(const Config& config, Checkpoint& checkpoint, Backend& be)
    : config_(config), rope_(make_rope(config.rope)) {
  info_ = config_.info();
  LayerLoader in(checkpoint, be, norm_offset(checkpoint));
  ends_ = in.ends(config_.vocab_size, config_.hidden_size, config_.tied);
  for (int layer = 0; layer < config_.layers; ++layer) blocks_.push_back(load_block(layer, in));
}

Block Qwen3Next::load_block(int layer, LayerLoader& in) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  Block block;
  block.input_norm = in.norm(prefix + "input_layernorm", config_.hidden_size);
  block.linear = config_.layer_types[layer] == "linear_attention";
  if (block.linear) {
    block.delta = load_delta(prefix + "linear_attn.", in);
  } else {
    block.attention = load_attention(prefix + "self_attn.", in);
  }
  block.post_attention_norm = in.norm(prefix + "post_attention_layernorm", config_.hidden_size);
  block.mlp = load_mlp(layer, prefix + "mlp.", in);
  return block;
}

SelfAttention Qwen3Next::load_attention(const std::string& prefix, LayerLoader& in) {
  const Config& c = config_;
  SelfAttention attention = in.attention(prefix, {.dim = c.hidden_size,
                                                  .heads = c.heads,
                                                  .kv_heads = c.kv_heads,
                                                  .head_dim = c.head_dim,
                                                  .head_norms = true,
                                                  .gated = true,
                                                  .norm_eps = c.rms_norm_eps});
  attention.qkv_options.rope = &rope_;
  attention.kv = add_kv_layer(
      info_, {.kv_heads = c.kv_heads, .k_dim = c.head_dim, .v_dim = c.head_dim}, full_cache());
  return attention;
}

// Qwen3.5 stores q, k, v and z, b and a apart; Qwen3-Next groups the rows of all
// heads that share a key head.
Weight Qwen3Next::load_delta_inputs(const std::string& prefix, LayerLoader& in) const {
  const GatedDeltaOptions& o = config_.delta;
  const int64_t dim = config_.hidden_size, v_size = int64_t{o.v_heads} * o.v_dim;
  if (in.checkpoint().has(prefix + "in_proj_qkv.weight")) {
    const LayerLoader::Part parts[] = {{"in_proj_qkv", o.channels()},
                                       {"in_proj_z", v_size},
                                       {"in_proj_b", o.v_heads},
                                       {"in_proj_a", o.v_heads}};
    return in.stacked(prefix, parts, dim);
  }
  const StoredMatrix all =
      in.checkpoint().take_matrix(prefix + "in_proj_qkvz", o.channels() + v_size, dim);
  const StoredMatrix gates =
      in.checkpoint().take_matrix(prefix + "in_proj_ba", int64_t{2} * o.v_heads, dim);
  const int64_t shared = o.v_heads / o.k_heads, values = shared * o.v_dim;
  const StoredMatrix parts[] = {
      pick_from_groups(all, o.k_heads, 0, o.k_dim),
      pick_from_groups(all, o.k_heads, o.k_dim, o.k_dim),
      pick_from_groups(all, o.k_heads, int64_t{2} * o.k_dim, values),
      pick_from_groups(all, o.k_heads, int64_t{2} * o.k_dim + values, values),
      pick_from_groups(gates, o.k_heads, 0, shared),
      pick_from_groups(gates, o.k_heads, shared, shared)};
  return in.stacked(parts);
}

GatedDeltaNet Qwen3Next::load_delta(const std::string& prefix, LayerLoader& in) {
  const GatedDeltaOptions& o = config_.delta;
  const int64_t v_size = int64_t{o.v_heads} * o.v_dim;
  std::vector<float> decay = in.checkpoint().take_vector(prefix + "A_log", o.v_heads);
  for (float& value : decay) value = -std::exp(value);

  GatedDeltaNet net;
  net.in = load_delta_inputs(prefix, in);
  net.out = in.matrix(prefix + "out_proj", config_.hidden_size, v_size);
  net.weights = {.conv = in.conv_taps(prefix + "conv1d.weight", o.channels(), o.conv_width),
                 .decay = in.backend().load_vector(decay),
                 .bias = in.vector(prefix + "dt_bias", o.v_heads),
                 .out_norm = in.norm(prefix + "norm", o.v_dim, /*offset=*/0)};
  net.options = o;
  net.state = add_state_layer(info_, o.state());
  return net;
}

FeedForward Qwen3Next::load_mlp(int layer, const std::string& prefix, LayerLoader& in) const {
  const Config& c = config_;
  if (c.experts.sparse[layer]) {
    return {.mlp = {}, .mixture = in.mixture(prefix, c.hidden_size, c.experts, c.activation)};
  }
  return {.mlp = in.mlp(prefix, c.hidden_size, c.intermediate_size, c.activation), .mixture = {}};
}

Tensor Qwen3Next::forward(Backend& be, const Step& step) const {
  const NormOptions norm{.eps = config_.rms_norm_eps};
  Tensor x = be.embed(ends_.embedding, 1.0f, step);
  for (const Block& block : blocks_) {
    const Tensor y = be.norm(x, block.input_norm, norm);
    x = block.linear ? block.delta.forward(be, y, x, step)
                     : block.attention.forward(be, y, x, step);
    x = block.mlp.forward(be, be.norm(x, block.post_attention_norm, norm), x);
  }
  return be.head(be.norm(be.select_outputs(x, step), ends_.norm, norm), ends_.head, 1.0f, 0.0f);
}

}  // namespace

std::unique_ptr<Model> make_qwen3_next(Checkpoint& checkpoint, Backend& backend) {
  return std::make_unique<Qwen3Next>(read_config(checkpoint), checkpoint, backend);
}

}  // namespace tandem
