// Pre-norm decoder with grouped-query attention, rotary positions and a gated
// MLP. Source: Llama 2, arXiv:2307.09288. What differs between the members is an
// option: biases (Qwen2), a sliding window (Mistral), tied embeddings (SmolLM2).
#include "models/llama.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/config_reader.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/rope.h"

namespace tandem {

namespace {

struct Config {
  std::string model_type;
  int hidden_size, layers, heads, kv_heads, head_dim, intermediate_size;
  int64_t vocab_size, max_positions;
  float rms_norm_eps;
  bool tied, qkv_bias, out_bias, mlp_bias;
  Activation activation;
  RopeConfig rope;
  std::vector<int> windows;  // per layer, 0 = all
};

bool uses_window(const ConfigReader& in, const std::string& model_type, int layer) {
  const std::vector<std::string> types = in.texts("layer_types");
  if (!types.empty()) {
    return layer < static_cast<int>(types.size()) && types[layer] == "sliding_attention";
  }
  if (model_type == "mistral") return true;
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
  const ConfigReader in(checkpoint.config(), checkpoint.path());
  Config c;
  c.model_type = in.text("model_type", "");
  c.hidden_size = in.count("hidden_size", 1 << 20);
  c.layers = in.count("num_hidden_layers", 1 << 12);
  c.heads = in.count("num_attention_heads", 1 << 12);
  c.kv_heads = in.has("num_key_value_heads") ? in.count("num_key_value_heads", c.heads) : c.heads;
  if (c.heads % c.kv_heads != 0) in.fail("num_key_value_heads", "a divisor of num_attention_heads");
  c.head_dim = in.has("head_dim") ? in.count("head_dim", 1 << 12) : c.hidden_size / c.heads;
  if (c.head_dim < 2 || c.head_dim % 2 != 0) in.fail("head_dim", "even and at least 2");
  c.intermediate_size = in.count("intermediate_size", 1 << 24);
  c.vocab_size = in.count("vocab_size", 1 << 24);
  c.max_positions = in.integer("max_position_embeddings", 2048);
  c.rms_norm_eps = static_cast<float>(in.number("rms_norm_eps", 1e-6));
  c.tied = in.flag("tie_word_embeddings", false);
  c.qkv_bias = in.flag("attention_bias", c.model_type == "qwen2");
  c.out_bias = c.model_type != "qwen2" && in.flag("attention_bias", false);
  c.mlp_bias = in.flag("mlp_bias", false);
  c.activation = in.activation();
  c.rope = in.rope(c.head_dim);
  c.windows = layer_windows(in, c);
  return c;
}

struct Block {
  Weight input_norm, post_attention_norm;
  SelfAttention attention;
  GatedMlp mlp;
};

class Llama : public Model {
 public:
  Llama(const Config& config, Checkpoint& checkpoint, Backend& backend);
  Tensor forward(Backend& be, const Step& step) const override;

 private:
  Block load_block(int layer, Checkpoint& in, Backend& be) const;
  SelfAttention load_attention(int layer, Checkpoint& in, Backend& be) const;
  GatedMlp load_mlp(const std::string& name, Checkpoint& in, Backend& be) const;
  Weight load_norm(const std::string& name, Checkpoint& in, Backend& be) const;

  Config config_;
  Rope rope_;
  Weight embedding_, norm_, head_;
  std::vector<Block> blocks_;
};

// The biases of several projections, one after the other.
std::vector<float> take_biases(Checkpoint& in, const std::string& prefix,
                               std::initializer_list<std::pair<const char*, int64_t>> parts) {
  std::vector<float> all;
  for (auto [name, size] : parts) {
    const std::vector<float> bias = in.take_vector(prefix + name + ".bias", size);
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

Llama::Llama(const Config& config, Checkpoint& in, Backend& be) : config_(config) {
  const int64_t dim = config_.hidden_size;
  config_.rope.divisors = in.take_optional_vector("rope_freqs.weight", config_.head_dim / 2);
  rope_ = make_rope(config_.rope);

  const StoredMatrix table = in.take_matrix("model.embed_tokens", config_.vocab_size, dim);
  embedding_ = be.load(std::span(&table, 1));
  for (int layer = 0; layer < config_.layers; ++layer) {
    blocks_.push_back(load_block(layer, in, be));
  }
  norm_ = load_norm("model.norm", in, be);
  if (config_.tied) {
    head_ = embedding_;
  } else {
    const StoredMatrix head = in.take_matrix("lm_head", config_.vocab_size, dim);
    head_ = be.load(std::span(&head, 1));
  }

  info_.architecture = config_.model_type;
  info_.vocab_size = config_.vocab_size;
  info_.layers = config_.layers;
  info_.hidden_size = dim;
  info_.max_positions = config_.max_positions;
  info_.kv_groups = {KvSpec{.layers = config_.layers,
                            .kv_heads = config_.kv_heads,
                            .k_dim = config_.head_dim,
                            .v_dim = config_.head_dim}};
  info_.kv_traits = {cache_traits(CacheKind::kFull)};
  info_.eos_ids = ConfigReader(in.config(), in.path()).ids("eos_token_id");
}

Weight Llama::load_norm(const std::string& name, Checkpoint& in, Backend& be) const {
  return be.load_vector(in.take_vector(name + ".weight", config_.hidden_size));
}

Block Llama::load_block(int layer, Checkpoint& in, Backend& be) const {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  return {.input_norm = load_norm(prefix + "input_layernorm", in, be),
          .post_attention_norm = load_norm(prefix + "post_attention_layernorm", in, be),
          .attention = load_attention(layer, in, be),
          .mlp = load_mlp(prefix + "mlp.", in, be)};
}

SelfAttention Llama::load_attention(int layer, Checkpoint& in, Backend& be) const {
  const Config& c = config_;
  const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.";
  const int64_t q_rows = int64_t{c.heads} * c.head_dim, kv_rows = int64_t{c.kv_heads} * c.head_dim;
  const StoredMatrix parts[] = {in.take_matrix(prefix + "q_proj", q_rows, c.hidden_size),
                                in.take_matrix(prefix + "k_proj", kv_rows, c.hidden_size),
                                in.take_matrix(prefix + "v_proj", kv_rows, c.hidden_size)};
  const StoredMatrix out = in.take_matrix(prefix + "o_proj", c.hidden_size, q_rows);
  std::vector<float> qkv_bias, out_bias;
  if (c.qkv_bias) {
    qkv_bias =
        take_biases(in, prefix, {{"q_proj", q_rows}, {"k_proj", kv_rows}, {"v_proj", kv_rows}});
  }
  if (c.out_bias) out_bias = take_biases(in, prefix, {{"o_proj", c.hidden_size}});

  SelfAttention attention;
  attention.qkv = be.load(parts, qkv_bias);
  attention.out = be.load(std::span(&out, 1), out_bias);
  attention.qkv_options = {.heads = c.heads,
                           .kv_heads = c.kv_heads,
                           .head_dim = c.head_dim,
                           .v_dim = c.head_dim,
                           .rope = &rope_};
  attention.attention_options = {.heads = c.heads,
                                 .kv_heads = c.kv_heads,
                                 .head_dim = c.head_dim,
                                 .v_dim = c.head_dim,
                                 .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                                 .window = c.windows[layer]};
  attention.kv = {.group = 0, .layer = layer};
  return attention;
}

GatedMlp Llama::load_mlp(const std::string& prefix, Checkpoint& in, Backend& be) const {
  const int64_t dim = config_.hidden_size, inner = config_.intermediate_size;
  const StoredMatrix gate = in.take_matrix(prefix + "gate_proj", inner, dim);
  const StoredMatrix up = in.take_matrix(prefix + "up_proj", inner, dim);
  const StoredMatrix down = in.take_matrix(prefix + "down_proj", dim, inner);
  std::vector<float> gate_up_bias, down_bias;
  if (config_.mlp_bias) {
    gate_up_bias = take_biases(in, prefix, {{"gate_proj", inner}, {"up_proj", inner}});
    down_bias = take_biases(in, prefix, {{"down_proj", dim}});
  }
  return {.gate_up = be.load_gate_up(gate, up, gate_up_bias),
          .down = be.load(std::span(&down, 1), down_bias),
          .activation = config_.activation};
}

Tensor Llama::forward(Backend& be, const Step& step) const {
  const NormOptions norm{.eps = config_.rms_norm_eps};
  Tensor x = be.embed(embedding_, 1.0f, step);
  for (const Block& block : blocks_) {
    x = block.attention.forward(be, be.norm(x, block.input_norm, norm), x, step);
    x = block.mlp.forward(be, be.norm(x, block.post_attention_norm, norm), x);
  }
  return be.head(be.norm(be.select_outputs(x, step), norm_, norm), head_, 1.0f, 0.0f);
}

}  // namespace

std::unique_ptr<Model> make_llama(Checkpoint& checkpoint, Backend& backend) {
  return std::make_unique<Llama>(read_config(checkpoint), checkpoint, backend);
}

}  // namespace tandem
