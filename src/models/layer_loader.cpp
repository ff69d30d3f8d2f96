#include "models/layer_loader.h"

#include <cmath>

namespace tandem {

std::vector<float> LayerLoader::biases(const std::string& prefix, std::span<const Part> parts) {
  std::vector<float> all;
  for (const Part& part : parts) {
    const std::vector<float> bias = in_.take_vector(prefix + part.name + ".bias", part.rows);
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

Weight LayerLoader::stacked(const std::string& prefix, std::span<const Part> parts, int64_t cols,
                            bool bias) {
  std::vector<StoredMatrix> matrices;
  for (const Part& part : parts) {
    matrices.push_back(in_.take_matrix(prefix + part.name, part.rows, cols));
  }
  return be_.load(matrices, bias ? biases(prefix, parts) : std::vector<float>());
}

Weight LayerLoader::matrix(const std::string& name, int64_t rows, int64_t cols, bool bias) {
  const Part parts[] = {{"", rows}};
  return stacked(name, parts, cols, bias);
}

Weight LayerLoader::norm(const std::string& name, int64_t size, float offset) {
  std::vector<float> weight = in_.take_vector(name + ".weight", size);
  for (float& value : weight) value += offset;
  return be_.load_vector(weight);
}

Weight LayerLoader::vector(const std::string& full_name, int64_t size) {
  return be_.load_vector(in_.take_vector(full_name, size));
}

DecoderEnds LayerLoader::ends(int64_t vocab, int64_t dim, bool tied) {
  DecoderEnds ends;
  ends.embedding = matrix("model.embed_tokens", vocab, dim);
  ends.norm = norm("model.norm", dim);
  ends.head = tied ? ends.embedding : matrix("lm_head", vocab, dim);
  return ends;
}

GatedMlp LayerLoader::mlp(const std::string& prefix, int64_t dim, int64_t inner,
                          Activation activation, bool bias) {
  const Part gate_up[] = {{"gate_proj", inner}, {"up_proj", inner}};
  const StoredMatrix gate = in_.take_matrix(prefix + "gate_proj", inner, dim);
  const StoredMatrix up = in_.take_matrix(prefix + "up_proj", inner, dim);
  return {
      .gate_up = be_.load_gate_up(gate, up, bias ? biases(prefix, gate_up) : std::vector<float>()),
      .down = matrix(prefix + "down_proj", dim, inner, bias),
      .activation = activation};
}

SelfAttention LayerLoader::attention(const std::string& prefix, const AttentionShape& shape) {
  const int64_t q_rows = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_rows = int64_t{shape.kv_heads} * shape.head_dim;
  const Part qkv[] = {{"q_proj", q_rows}, {"k_proj", kv_rows}, {"v_proj", kv_rows}};
  SelfAttention attention;
  attention.qkv = stacked(prefix, qkv, shape.dim, shape.qkv_bias);
  attention.out = matrix(prefix + "o_proj", shape.dim, q_rows, shape.out_bias);
  attention.qkv_options = {.heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .v_dim = shape.head_dim,
                           .norm_eps = shape.norm_eps};
  if (shape.head_norms) {
    attention.qkv_options.q_norm = norm(prefix + "q_norm", shape.head_dim);
    attention.qkv_options.k_norm = norm(prefix + "k_norm", shape.head_dim);
  }
  attention.attention_options = {.heads = shape.heads,
                                 .kv_heads = shape.kv_heads,
                                 .head_dim = shape.head_dim,
                                 .v_dim = shape.head_dim,
                                 .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
  return attention;
}

}  // namespace tandem
