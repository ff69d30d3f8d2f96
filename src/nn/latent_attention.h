// Multi-head latent attention with its projections. Source: DeepSeek-V2,
// arXiv:2405.04434.
#pragma once

#include "backend/backend.h"

namespace tandem {

struct LatentAttention {
  Weight q;               // [H (nope + rope), D], or of q_down's output
  Weight q_down, q_norm;  // [Rq, D], [1, Rq]; empty = q comes from x itself
  Weight kv_down;         // [R + rope, D]
  Weight out;             // [D, H Dv]
  LatentWeights weights;
  LatentOptions options;
  KvRef kv;

  // x and residual [n, D].
  Tensor forward(Backend& be, const Tensor& x, const Tensor& residual, const Step& step) const {
    const NormOptions norm{.eps = options.norm_eps};
    const Tensor query =
        q_down ? be.linear(be.norm(be.linear(x, q_down), q_norm, norm), q) : be.linear(x, q);
    const Tensor latent = be.linear(x, kv_down);
    return be.linear(be.latent_attention(query, latent, weights, options, kv, step), out, residual);
  }
};

}  // namespace tandem
