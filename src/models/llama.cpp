// Pre-norm decoder with grouped-query attention, rotary positions and a gated
// MLP. Source: Llama 2, arXiv:2307.09288. What differs between the members is an
// option: biases (Qwen2), norms of each head's q and k (Qwen3), a sliding window
// (Mistral), tied embeddings (SmolLM2), experts in place of the MLP (Mixtral,
// Qwen2-MoE and Qwen3-MoE).
#include "models/llama.h"

#include "models/decoder_config.h"
#include "models/layer_loader.h"
#include "nn/rope.h"

namespace tandem {

namespace {

struct Config : DecoderConfig {
  bool qkv_bias, out_bias, mlp_bias, head_norms;
  RopeConfig rope;
  ExpertConfig experts;
  std::vector<int> windows;  // per layer, 0 = all
};

bool uses_window(const ConfigReader& in, const std::string& model_type, int layer) {
  const std::vector<std::string> types = in.texts("layer_types");
  if (!types.empty()) {
    return layer < static_cast<int>(types.size()) && types[layer] == "sliding_attention";
  }
  if (model_type == "mistral" || model_type == "mixtral") return true;
  return in.flag("use_sliding_window", false) && layer >= in.integer("max_window_layers", 0);
}

std::vector<int> layer_windows(const ConfigReader& in, const Config& c) {
  std::vector<int> windows(c.layers, 0);
  if (!in.has("sliding_window")) return windows;
  const int window = in.count("sliding_window", 1 << 30);
  for (int layer = 0; layer < c.layers; ++layer) {
    if (uses_window(in, c.model_type, layer)) windows[layer] = window;
  }
  return windows;
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader in = text_config(checkpoint);
  Config c{read_decoder_config(in)};
  const bool qwen2 = c.model_type == "qwen2" || c.model_type == "qwen2_moe";
  c.qkv_bias = in.flag("qkv_bias", in.flag("attention_bias", qwen2));
  c.out_bias = !qwen2 && in.flag("attention_bias", false);
  c.mlp_bias = in.flag("mlp_bias", false);
  c.head_norms = c.model_type == "qwen3" || c.model_type == "qwen3_moe";
  c.experts = read_expert_config(in, c.layers, c.model_type == "mixtral");
  c.rope = in.rope(c.head_dim);
  c.windows = layer_windows(in, c);
  return c;
}

struct Block {
  Weight input_norm, post_attention_norm;
  SelfAttention attention;
  FeedForward mlp;
};

class Llama : public Model {
 public:
  Llama(const Config& config, Checkpoint& checkpoint, Backend& backend);
  Tensor forward(Backend& be, const Step& step) const override;

 private:
  Block load_block(int layer, LayerLoader& in);
  FeedForward load_mlp(int layer, const std::string& prefix, LayerLoader& in) const;

  Config config_;
  Rope rope_;
  DecoderEnds ends_;
  std::vector<Block> blocks_;
};

Llama::Llama(const Config& config, Checkpoint& checkpoint, Backend& be) : config_(config) {
  config_.rope.divisors =
      checkpoint.take_optional_vector("rope_freqs.weight", config_.head_dim / 2);
  rope_ = make_rope(config_.rope);
  info_ = config_.info();
  LayerLoader in(checkpoint, be);
  ends_ = in.ends(config_.vocab_size, config_.hidden_size, config_.tied);
  for (int layer = 0; layer < config_.layers; ++layer) blocks_.push_back(load_block(layer, in));
}

Block Llama::load_block(int layer, LayerLoader& in) {
  const Config& c = config_;
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  Block block;
  block.input_norm = in.norm(prefix + "input_layernorm", c.hidden_size);
  block.attention = in.attention(prefix + "self_attn.", {.dim = c.hidden_size,
                                                         .heads = c.heads,
                                                         .kv_heads = c.kv_heads,
                                                         .head_dim = c.head_dim,
                                                         .qkv_bias = c.qkv_bias,
                                                         .out_bias = c.out_bias,
                                                         .head_norms = c.head_norms,
                                                         .norm_eps = c.rms_norm_eps});
  block.attention.qkv_options.rope = &rope_;
  block.attention.attention_options.window = c.windows[layer];
  block.attention.kv = add_kv_layer(info_,
                                    {.kv_heads = c.kv_heads,
                                     .k_dim = c.head_dim,
                                     .v_dim = c.head_dim,
                                     .window = c.windows[layer]},
                                    c.windows[layer] > 0 ? sliding_cache() : full_cache());
  block.post_attention_norm = in.norm(prefix + "post_attention_layernorm", c.hidden_size);
  block.mlp = load_mlp(layer, prefix, in);
  return block;
}

FeedForward Llama::load_mlp(int layer, const std::string& prefix, LayerLoader& in) const {
  const Config& c = config_;
  if (!c.experts.sparse[layer]) {
    return {.mlp = in.mlp(prefix + "mlp.", c.hidden_size, c.intermediate_size, c.activation,
                          c.mlp_bias),
            .mixture = {}};
  }
  if (c.model_type == "mixtral") {
    return {.mlp = {},
            .mixture = in.mixture(prefix + "block_sparse_moe.", c.hidden_size, c.experts,
                                  c.activation, {.gate = "w1", .up = "w3", .down = "w2"})};
  }
  return {.mlp = {},
          .mixture = in.mixture(prefix + "mlp.", c.hidden_size, c.experts, c.activation)};
}

Tensor Llama::forward(Backend& be, const Step& step) const {
  const NormOptions norm{.eps = config_.rms_norm_eps};
  Tensor x = be.embed(ends_.embedding, 1.0f, step);
  for (const Block& block : blocks_) {
    x = block.attention.forward(be, be.norm(x, block.input_norm, norm), x, step);
    x = block.mlp.forward(be, be.norm(x, block.post_attention_norm, norm), x);
  }
  return be.head(be.norm(be.select_outputs(x, step), ends_.norm, norm), ends_.head, 1.0f, 0.0f);
}

}  // namespace

std::unique_ptr<Model> make_llama(Checkpoint& checkpoint, Backend& backend) {
  return std::make_unique<Llama>(read_config(checkpoint), checkpoint, backend);
}

}  // namespace tandem
