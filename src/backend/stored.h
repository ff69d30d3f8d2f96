// Weights as a model file stores them: views into mapped memory, not copies.
//
// The loader makes these, a backend turns them into Weights in its own layout
// and drops them. Quantised formats run along the columns (input features), so
// rows may be picked, reordered and concatenated freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem {

enum class DType : uint8_t { kF32, kF16, kBF16, kI32, kU32 };

// Bytes of one element.
int64_t dtype_bytes(DType dtype);
const char* dtype_name(DType dtype);

// How the elements of a matrix are coded. The q* formats are GGUF's, block by
// block as in the file; kAffine is MLX's: w = scale * code + bias for groups of
// `group_size` columns, codes packed little-endian into u32 words.
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kAffine,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

const char* weight_format_name(WeightFormat format);
// Columns that one stored block covers (1 for dense, 32 or 256 for GGUF's) and
// its bytes. Not for kAffine, whose planes lie apart.
int64_t block_columns(WeightFormat format);
int64_t block_bytes(WeightFormat format);

// One matrix [rows, cols] = [output features, input features], row-major.
struct StoredMatrix {
  std::string name;  // as in the file, for messages
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  std::span<const std::byte> data;

  // kAffine only: scales and biases are [rows, cols / group_size].
  int bits = 0;
  int group_size = 0;
  DType scale_type = DType::kF16;
  std::span<const std::byte> scales;
  std::span<const std::byte> biases;

  // Row i of the matrix is stored row row_order[i]; empty means as stored.
  std::vector<int32_t> row_order;

  int64_t stored_row(int64_t row) const { return row_order.empty() ? row : row_order[row]; }
};

// Expands one row into f32. The plain reference for every format: used by the
// oracle kernels, by dense fall-backs and by tests.
//   row in [0, matrix.rows), out [cols]
void dequantize_row(const StoredMatrix& matrix, int64_t row, float* out);

// The 6-bit scale and minimum of sub-block j (0..7) in the 12 packed bytes of a
// Q4_K or Q5_K block.
struct KScaleMin {
  uint8_t scale = 0;
  uint8_t minimum = 0;
};
KScaleMin k_scale_min(const uint8_t* packed, int sub_block);

// Conversions used wherever halves are read. Exact; to_* rounds to nearest even.
float f16_to_f32(uint16_t bits);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
uint16_t f32_to_bf16(float value);

}  // namespace tandem
