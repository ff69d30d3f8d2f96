// Makes the layers of nn/ from a checkpoint's tensors, by their names.
//
// Prefixes end with a dot ("model.layers.0.mlp."); names stand without ".weight".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/decoder_config.h"
#include "models/load/checkpoint.h"
#include "nn/attention.h"
#include "nn/moe.h"

namespace tandem {

// Embedding, last norm and head of a decoder.
struct DecoderEnds {
  Weight embedding;  // [V, D]
  Weight norm;       // [1, D]
  Weight head;       // [V, D]; the embedding where they are tied
};

class LayerLoader {
 public:
  // norm_offset: what is added to every norm's weight (1 in zero-centred norms).
  LayerLoader(Checkpoint& checkpoint, Backend& backend, float norm_offset = 0)
      : in_(checkpoint), be_(backend), norm_offset_(norm_offset) {}

  Checkpoint& checkpoint() { return in_; }
  Backend& backend() { return be_; }

  struct Part {
    const char* name;
    int64_t rows;
  };

  // Matrices of the same width stacked along their rows.
  Weight stacked(const std::string& prefix, std::span<const Part> parts, int64_t cols,
                 bool bias = false);
  Weight stacked(std::span<const StoredMatrix> parts) { return be_.load(parts); }
  Weight matrix(const std::string& name, int64_t rows, int64_t cols, bool bias = false);
  Weight norm(const std::string& name, int64_t size) { return norm(name, size, norm_offset_); }
  Weight norm(const std::string& name, int64_t size, float offset);
  Weight vector(const std::string& full_name, int64_t size);
  // A convolution over each channel by itself, stored [channels, 1, width] (the oldest
  // input first), as the backends want it: [1, width * channels].
  Weight conv_taps(const std::string& full_name, int64_t channels, int64_t width);

  DecoderEnds ends(int64_t vocab, int64_t dim, bool tied, const char* norm_name = "model.norm");

  struct MlpNames {
    const char* gate = "gate_proj";
    const char* up = "up_proj";
    const char* down = "down_proj";
  };
  GatedMlp mlp(const std::string& prefix, int64_t dim, int64_t inner, Activation activation,
               bool bias = false);
  GatedMlp mlp(const std::string& prefix, int64_t dim, int64_t inner, Activation activation,
               bool bias, const MlpNames& names);

  // Experts by number in "experts." below the prefix, or stacked by kind in
  // "switch_mlp.", as mlx-lm writes them.
  Weight experts(const std::string& prefix, int64_t count, int64_t dim, int64_t inner,
                 const MlpNames& names);
  Weight experts(const std::string& prefix, int64_t count, int64_t dim, int64_t inner) {
    return experts(prefix, count, dim, inner, {});
  }
  // The router `gate`, the experts, and shared_expert with shared_expert_gate.
  ExpertMixture mixture(const std::string& prefix, int64_t dim, const ExpertConfig& config,
                        Activation activation, const MlpNames& names);
  ExpertMixture mixture(const std::string& prefix, int64_t dim, const ExpertConfig& config,
                        Activation activation) {
    return mixture(prefix, dim, config, activation, {});
  }

  // From each of `count` groups of rows those in [begin, begin + rows), dense, one
  // matrix a head: [rows, cols], or transposed.
  Weight heads(const StoredMatrix& all, int64_t count, int64_t begin, int64_t rows,
               bool transposed);

  struct AttentionShape {
    int64_t dim = 0;
    int heads = 0, kv_heads = 0, head_dim = 0;
    bool qkv_bias = false, out_bias = false;
    bool head_norms = false;  // q_norm and k_norm, each over one head
    bool gated = false;       // q_proj has for each head q, then its gate
    float norm_eps = 1e-6f;
    const char* out_name = "o_proj";
    const char* q_norm_name = "q_norm";
    const char* k_norm_name = "k_norm";
  };
  // q_proj, k_proj, v_proj and the output, with scale 1 / sqrt(head_dim), every key
  // seen and no rotation: the caller sets what differs.
  SelfAttention attention(const std::string& prefix, const AttentionShape& shape);

 private:
  std::vector<float> biases(const std::string& prefix, std::span<const Part> parts);

  Checkpoint& in_;
  Backend& be_;
  float norm_offset_;
};

// Rows of a stored matrix, in the given order.
StoredMatrix pick_rows(const StoredMatrix& matrix, const std::vector<int32_t>& rows);
// Of `groups` equal groups of rows, from each those in [begin, begin + count).
StoredMatrix pick_from_groups(const StoredMatrix& matrix, int64_t groups, int64_t begin,
                              int64_t count);

}  // namespace tandem
