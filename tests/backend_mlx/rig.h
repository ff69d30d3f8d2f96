// Builders for the tests of the MLX backend: stored matrices of every format,
// steps of ragged rows, and plain matrices of doubles to compare with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace tandem::test {

// Row-major doubles.
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<double> values;

  Matrix(int64_t r, int64_t c) : rows(r), cols(c), values(r * c) {}
  double& at(int64_t r, int64_t c) { return values[r * cols + c]; }
  double at(int64_t r, int64_t c) const { return values[r * cols + c]; }
  std::vector<float> floats() const { return {values.begin(), values.end()}; }
};

// Uniform in [-1, 1], rounded to f32.
Matrix random_matrix(int64_t rows, int64_t cols, uint32_t seed);

// A stored matrix with the memory it views.
struct Stored {
  std::vector<uint8_t> data, scales, biases;
  StoredMatrix matrix;

  Stored() = default;
  Stored(Stored&&) = default;
};

// Random blocks of any GGUF or dense format; weights of about unit size.
Stored random_stored(WeightFormat format, int64_t rows, int64_t cols, uint32_t seed);
Stored random_affine(int bits, int group_size, DType scale_type, int64_t rows, int64_t cols,
                     uint32_t seed);
Stored stored_f32(const Matrix& matrix);

// What dequantize_row says.
Matrix expanded(const StoredMatrix& matrix);

// x W^T + b
Matrix product(const Matrix& x, const Matrix& w, std::span<const float> bias = {});

// Largest difference over the largest magnitude of `want`.
double relative_error(std::span<const float> got, const Matrix& want);

// Owns what a Step borrows. One cache group per table.
class StepOf {
 public:
  struct Row {
    int32_t first_position = 0;
    int32_t tokens = 1;
    std::vector<int32_t> pages;
  };

  // Rows with their pages, or one row without any.
  static StepOf rows(const std::vector<Row>& rows);
  static StepOf one_row(int32_t tokens) { return rows({{.tokens = tokens}}); }
  // Uses the values as the step's activations: embed() returns them.
  StepOf& with_activations(const Matrix& x);
  StepOf& with_store(KvStore* store);

  std::vector<int32_t> tokens, positions, token_row, row_start{0}, prompt_length, outputs;
  std::vector<int32_t> pages, page_start{0};
  std::vector<BothWays> both_ways;
  std::vector<float> embeddings;
  std::vector<int32_t> embedding_token;

  // Views what is there now; valid as long as this lives and is not changed.
  Step step();

 private:
  std::vector<KvStore*> stores_;
  std::vector<BlockTable> tables_;
};

// A tensor with these values, through embed() of a media embedding.
Tensor input(Backend& backend, StepOf& step, const Matrix& x);

}  // namespace tandem::test
