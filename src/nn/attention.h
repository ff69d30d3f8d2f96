// Self-attention over the paged cache, with its projections.
#pragma once

#include "backend/backend.h"

namespace tandem {

struct SelfAttention {
  Weight qkv;   // [H * Dk + Hkv * (Dk + Dv), D]
  Weight out;   // [D, H * Dv]
  Weight gate;  // [H * Dv, D] sigmoid factor of what attention gives; empty = none
  QkvOptions qkv_options;
  AttentionOptions attention_options;
  KvRef kv;

  // residual + attention(x) Wo^T. x and residual [n, D].
  Tensor forward(Backend& be, const Tensor& x, const Tensor& residual, const Step& step) const {
    const Tensor q = be.qkv_rope_write(x, qkv, qkv_options, kv, step);
    Tensor y = be.attention(q, kv, attention_options, step);
    if (gate) y = be.multiply(y, be.linear_act(x, gate, Activation::kSigmoid));
    return be.linear(y, out, residual);
  }
};

}  // namespace tandem
