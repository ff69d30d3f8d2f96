// How the MLX backend computes: chosen from device and precision, or set by tests.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace tandem::mlx_backend {

struct Numerics {
  // Matrix products in f16 with f32 between ops (and in norms, rope, softmax and
  // residual sums). f16 rather than bf16 because ten bits of mantissa hold bf16
  // weights as well, and MLX's products sum in f32 but round what they return:
  // bf16 would leave eight bits of a logit. Inputs are scaled by kHalfScale, so
  // that values to two million neither overflow on the way in nor out.
  bool half = false;

  // From this many rows on a quantised weight is expanded and multiplied as a
  // dense one: stock quantised kernels read the weight anew for each row. 0 = never.
  int expand_from_rows = 0;

  // mx::fast::scaled_dot_product_attention where it has what is asked for.
  bool fused_attention = false;
};

// A power of two, so that scaling is exact.
inline constexpr float kHalfScale = 1.0f / 32;

std::unique_ptr<Backend> make_backend(Precision precision, const Numerics& numerics);

}  // namespace tandem::mlx_backend
