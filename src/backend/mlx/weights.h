// Weights in MLX arrays, and the matrix product with them.
#pragma once

#include <optional>
#include <span>

#include "backend/mlx/numerics.h"
#include "backend/mlx/runtime.h"
#include "backend/stored.h"
#include "backend/tensor.h"

namespace tandem::mlx_backend {

// Rows of a weight that have one format. Dense: w [rows, cols] alone. Affine:
// w holds codes [rows, cols * bits / 32], scales and biases [rows, groups].
struct Segment {
  mx::array w;
  std::optional<mx::array> scales, biases;
  int bits = 0;
  int group_size = 0;

  int rows() const { return w.shape(0); }
};

struct MlxWeight : WeightStorage {
  std::vector<Segment> segments;    // of a matrix, stacked along the rows
  std::optional<mx::array> bias;    // f32 [rows]
  std::optional<mx::array> vector;  // f32 [size], in place of segments

  int64_t bytes() const;
};

// The storage behind a handle of this backend. The handle must not be empty.
const MlxWeight& storage(const Weight& weight);

// Parts stacked along the rows; neighbours of one format become one segment.
// Evaluated part by part, so that one part at most exists twice.
Weight load_matrix(std::span<const StoredMatrix> parts, std::span<const float> bias,
                   const Numerics& numerics);
Weight load_vector(std::span<const float> values);

// x W^T + b. x f32 [n, cols], n > 0; returns f32 [n, rows].
mx::array multiply(const mx::array& x, const MlxWeight& weight, const Numerics& numerics);

// Rows `ids` (int32 [n]) of a weight in one segment, as f32 [n, cols].
mx::array lookup(const MlxWeight& weight, const mx::array& ids);

}  // namespace tandem::mlx_backend
