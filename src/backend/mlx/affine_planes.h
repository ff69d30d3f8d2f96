// Stored matrices as the three planes of MLX's affine quantisation:
// w = scale * code + bias in groups of columns.
//
// Exact for GGUF's Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K and Q5_K in groups of 32
// with f32 scales. Q6_K scales groups of 16, which MLX does not have.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/stored.h"

namespace tandem::mlx_backend {

struct AffinePlanes {
  int bits = 0;
  int group_size = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<uint32_t> codes;  // [rows, cols * bits / 32], a little-endian bit stream a row
  std::vector<float> scales;    // [rows, cols / group_size]
  std::vector<float> biases;
};

// Whether the matrix has an exact affine form that MLX can multiply with.
bool has_affine_form(const StoredMatrix& matrix);

// Bits and group size of that form.
int affine_bits(const StoredMatrix& matrix);
int affine_group_size(const StoredMatrix& matrix);

// Appends the rows of `matrix` (in its row_order) to planes of the same bits,
// group size and columns.
void append_rows(const StoredMatrix& matrix, AffinePlanes& planes);

}  // namespace tandem::mlx_backend
