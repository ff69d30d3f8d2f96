// Makes the layers of nn/ from a checkpoint's tensors, by their names.
//
// Prefixes end with a dot ("model.layers.0.mlp."); names stand without ".weight".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/load/checkpoint.h"
#include "nn/attention.h"
#include "nn/mlp.h"

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
  Weight matrix(const std::string& name, int64_t rows, int64_t cols, bool bias = false);
  Weight norm(const std::string& name, int64_t size) { return norm(name, size, norm_offset_); }
  Weight norm(const std::string& name, int64_t size, float offset);
  Weight vector(const std::string& full_name, int64_t size);

  DecoderEnds ends(int64_t vocab, int64_t dim, bool tied);
  // gate_proj, up_proj and down_proj.
  GatedMlp mlp(const std::string& prefix, int64_t dim, int64_t inner, Activation activation,
               bool bias = false);

  struct AttentionShape {
    int64_t dim = 0;
    int heads = 0, kv_heads = 0, head_dim = 0;
    bool qkv_bias = false, out_bias = false;
    bool head_norms = false;  // q_norm and k_norm, each over one head
    float norm_eps = 1e-6f;
  };
  // q_proj, k_proj, v_proj and o_proj, with scale 1 / sqrt(head_dim), every key
  // seen and no rotation: the caller sets what differs.
  SelfAttention attention(const std::string& prefix, const AttentionShape& shape);

 private:
  std::vector<float> biases(const std::string& prefix, std::span<const Part> parts);

  Checkpoint& in_;
  Backend& be_;
  float norm_offset_;
};

}  // namespace tandem
