// Rotary position embedding from frequencies.
#pragma once

#include "backend/backend.h"
#include "backend/mlx/runtime.h"

namespace tandem::mlx_backend {

// Cosines and sines of position * frequency, f32 [n, 1, rotated dims / 2].
struct RotaryTable {
  mx::array cos;
  mx::array sin;
};

// The angle is rounded to f32, as models are trained; its cosine is exact.
RotaryTable rotary_table(const Rope& rope, std::span<const int32_t> positions);

// Rotates the first 2 * frequencies elements of each head; x f32 [n, heads, dim].
mx::array rotate(const mx::array& x, const RotaryTable& table, bool interleaved);

}  // namespace tandem::mlx_backend
