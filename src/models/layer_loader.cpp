#include "models/layer_loader.h"

#include <cmath>

#include "base/error.h"

namespace tandem {

StoredMatrix pick_rows(const StoredMatrix& matrix, const std::vector<int32_t>& rows) {
  StoredMatrix picked = matrix;
  picked.rows = static_cast<int64_t>(rows.size());
  picked.row_order.clear();
  for (const int32_t row : rows) {
    picked.row_order.push_back(static_cast<int32_t>(matrix.stored_row(row)));
  }
  return picked;
}

StoredMatrix pick_from_groups(const StoredMatrix& matrix, int64_t groups, int64_t begin,
                              int64_t count) {
  const int64_t size = matrix.rows / groups;
  std::vector<int32_t> rows;
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t i = 0; i < count; ++i) {
      rows.push_back(static_cast<int32_t>(group * size + begin + i));
    }
  }
  return pick_rows(matrix, rows);
}

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

DecoderEnds LayerLoader::ends(int64_t vocab, int64_t dim, bool tied, const char* norm_name) {
  DecoderEnds ends;
  ends.embedding = matrix("model.embed_tokens", vocab, dim);
  ends.norm = norm(norm_name, dim);
  ends.head = tied ? ends.embedding : matrix("lm_head", vocab, dim);
  return ends;
}

GatedMlp LayerLoader::mlp(const std::string& prefix, int64_t dim, int64_t inner,
                          Activation activation, bool bias) {
  return mlp(prefix, dim, inner, activation, bias, {});
}

GatedMlp LayerLoader::mlp(const std::string& prefix, int64_t dim, int64_t inner,
                          Activation activation, bool bias, const MlpNames& names) {
  const Part gate_up[] = {{names.gate, inner}, {names.up, inner}};
  const StoredMatrix gate = in_.take_matrix(prefix + names.gate, inner, dim);
  const StoredMatrix up = in_.take_matrix(prefix + names.up, inner, dim);
  return {
      .gate_up = be_.load_gate_up(gate, up, bias ? biases(prefix, gate_up) : std::vector<float>()),
      .down = matrix(prefix + names.down, dim, inner, bias),
      .activation = activation};
}

Weight LayerLoader::experts(const std::string& prefix, int64_t count, int64_t dim, int64_t inner,
                            const MlpNames& names) {
  std::vector<StoredExpert> experts(static_cast<size_t>(count));
  const std::string stacked = prefix + "switch_mlp.";
  if (in_.has(stacked + "gate_proj.weight")) {
    const StoredMatrix gate = in_.take_matrix(stacked + "gate_proj", count * inner, dim);
    const StoredMatrix up = in_.take_matrix(stacked + "up_proj", count * inner, dim);
    const StoredMatrix down = in_.take_matrix(stacked + "down_proj", count * dim, inner);
    for (int64_t e = 0; e < count; ++e) {
      experts[e] = {pick_from_groups(gate, 1, e * inner, inner),
                    pick_from_groups(up, 1, e * inner, inner),
                    pick_from_groups(down, 1, e * dim, dim)};
    }
    return be_.load_experts(experts);
  }
  for (int64_t e = 0; e < count; ++e) {
    const std::string own = prefix + "experts." + std::to_string(e) + ".";
    experts[e] = {in_.take_matrix(own + names.gate, inner, dim),
                  in_.take_matrix(own + names.up, inner, dim),
                  in_.take_matrix(own + names.down, dim, inner)};
  }
  return be_.load_experts(experts);
}

ExpertMixture LayerLoader::mixture(const std::string& prefix, int64_t dim,
                                   const ExpertConfig& config, Activation activation,
                                   const MlpNames& names) {
  ExpertMixture mixture;
  mixture.weights.router = matrix(prefix + "gate", config.count, dim);
  mixture.weights.experts = experts(prefix, config.count, dim, config.size, names);
  mixture.options = {
      .top_k = config.top_k, .activation = activation, .normalize_scores = config.normalize_scores};
  if (config.shared_size > 0) {
    mixture.shared = mlp(prefix + "shared_expert.", dim, config.shared_size, activation);
    mixture.shared_gate = matrix(prefix + "shared_expert_gate", 1, dim);
  }
  return mixture;
}

Weight LayerLoader::conv_taps(const std::string& full_name, int64_t channels, int64_t width) {
  const std::vector<float> conv = in_.take_vector(full_name, channels * width);
  std::vector<float> taps(conv.size());
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < width; ++j) taps[j * channels + c] = conv[c * width + j];
  }
  return be_.load_vector(taps);
}

Weight LayerLoader::heads(const StoredMatrix& all, int64_t count, int64_t begin, int64_t rows,
                          bool transposed) {
  std::vector<std::vector<float>> values(count, std::vector<float>(rows * all.cols));
  std::vector<StoredMatrix> matrices;
  std::vector<float> row(all.cols);
  for (int64_t head = 0; head < count; ++head) {
    for (int64_t r = 0; r < rows; ++r) {
      dequantize_row(all, head * (all.rows / count) + begin + r, row.data());
      for (int64_t c = 0; c < all.cols; ++c) {
        values[head][transposed ? c * rows + r : r * all.cols + c] = row[c];
      }
    }
    StoredMatrix matrix;
    matrix.name = all.name;
    matrix.rows = transposed ? all.cols : rows;
    matrix.cols = transposed ? rows : all.cols;
    matrix.data = std::as_bytes(std::span(values[head]));
    matrices.push_back(std::move(matrix));
  }
  return be_.load_heads(matrices);
}

SelfAttention LayerLoader::attention(const std::string& prefix, const AttentionShape& shape) {
  const int64_t q_rows = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_rows = int64_t{shape.kv_heads} * shape.head_dim;
  const Part qkv[] = {{"q_proj", q_rows}, {"k_proj", kv_rows}, {"v_proj", kv_rows}};
  SelfAttention attention;
  if (shape.gated) {
    INVARIANT(!shape.qkv_bias);
    const StoredMatrix both = in_.take_matrix(prefix + "q_proj", 2 * q_rows, shape.dim);
    const StoredMatrix parts[] = {pick_from_groups(both, shape.heads, 0, shape.head_dim),
                                  in_.take_matrix(prefix + "k_proj", kv_rows, shape.dim),
                                  in_.take_matrix(prefix + "v_proj", kv_rows, shape.dim)};
    const StoredMatrix gate = pick_from_groups(both, shape.heads, shape.head_dim, shape.head_dim);
    attention.qkv = be_.load(parts);
    attention.gate = be_.load(std::span(&gate, 1));
  } else {
    attention.qkv = stacked(prefix, qkv, shape.dim, shape.qkv_bias);
  }
  attention.out = matrix(prefix + shape.out_name, shape.dim, q_rows, shape.out_bias);
  attention.qkv_options = {.heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .v_dim = shape.head_dim,
                           .norm_eps = shape.norm_eps};
  if (shape.head_norms) {
    attention.qkv_options.q_norm = norm(prefix + shape.q_norm_name, shape.head_dim);
    attention.qkv_options.k_norm = norm(prefix + shape.k_norm_name, shape.head_dim);
  }
  attention.attention_options = {.heads = shape.heads,
                                 .kv_heads = shape.kv_heads,
                                 .head_dim = shape.head_dim,
                                 .v_dim = shape.head_dim,
                                 .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
  return attention;
}

}  // namespace tandem
