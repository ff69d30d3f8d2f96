#include <doctest/doctest.h>

#include "backend/mlx/numerics.h"
#include "backend_mlx/rig.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kExactTolerance = 2e-6;
// MLX sums quantised products of halves in half on the CPU.
constexpr double kHalfTolerance = 8e-3;

std::unique_ptr<Backend> exact() { return make_mlx_backend({.precision = Precision::kExact}); }

// What a GPU computes with in `high`, on any device.
std::unique_ptr<Backend> half() {
  return mlx_backend::make_backend(Precision::kHigh,
                                   {.half = true, .expand_from_rows = 3, .fused_attention = true});
}

// Error of x W^T on the backend against doubles over dequantize_row.
double product_error(Backend& backend, const Stored& stored, int64_t tokens) {
  const Matrix x = random_matrix(tokens, stored.matrix.cols, 7);
  const Weight w = backend.load(std::span(&stored.matrix, 1));
  StepOf step = StepOf::one_row(static_cast<int32_t>(tokens));
  backend.begin_step(step.step());
  const Tensor y = backend.linear(input(backend, step, x), w);
  return relative_error(backend.read(y), product(x, expanded(stored.matrix)));
}

double lookup_error(Backend& backend, const Stored& stored) {
  const Weight w = backend.load(std::span(&stored.matrix, 1));
  StepOf step = StepOf::one_row(3);
  step.tokens = {4, 0, static_cast<int32_t>(stored.matrix.rows) - 1};
  backend.begin_step(step.step());
  const Matrix all = expanded(stored.matrix);
  Matrix want(3, all.cols);
  for (int t = 0; t < 3; ++t) {
    for (int64_t c = 0; c < all.cols; ++c) want.at(t, c) = 0.5 * all.at(step.tokens[t], c);
  }
  return relative_error(backend.read(backend.embed(w, 0.5f, step.step())), want);
}

const WeightFormat kFormats[] = {WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16,
                                 WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ5_0,
                                 WeightFormat::kQ5_1, WeightFormat::kQ8_0, WeightFormat::kQ4_K,
                                 WeightFormat::kQ5_K, WeightFormat::kQ6_K};

}  // namespace

TEST_CASE("every stored format multiplies as its plain expansion does") {
  const auto backend = exact();
  for (const WeightFormat format : kFormats) {
    CAPTURE(weight_format_name(format));
    const Stored stored = random_stored(format, 24, 512, 11);
    CHECK(product_error(*backend, stored, 1) < kExactTolerance);
    CHECK(product_error(*backend, stored, 9) < kExactTolerance);
  }
}

TEST_CASE("half products stay within the rounding of halves") {
  const auto backend = half();
  for (const WeightFormat format : kFormats) {
    CAPTURE(weight_format_name(format));
    const Stored stored = random_stored(format, 24, 512, 12);
    CHECK(product_error(*backend, stored, 1) < kHalfTolerance);
    CHECK(product_error(*backend, stored, 5) < kHalfTolerance);
  }
}

TEST_CASE("MLX's own format multiplies with any bits, group and scale type") {
  const auto exactly = exact(), roughly = half();
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      for (const DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
        CAPTURE(bits);
        CAPTURE(group);
        const Stored stored = random_affine(bits, group, type, 8, 128, 13);
        CHECK(product_error(*exactly, stored, 2) < kExactTolerance);
        CHECK(product_error(*roughly, stored, 2) < kHalfTolerance);
      }
    }
  }
}

TEST_CASE("an embedding expands the rows that are looked up") {
  const auto exactly = exact(), roughly = half();
  for (const WeightFormat format : kFormats) {
    CAPTURE(weight_format_name(format));
    const Stored stored = random_stored(format, 9, 256, 14);
    CHECK(lookup_error(*exactly, stored) == 0);
    CHECK(lookup_error(*roughly, stored) < kHalfTolerance);
  }
  CHECK(lookup_error(*exactly, random_affine(4, 64, DType::kBF16, 9, 128, 15)) == 0);
}

TEST_CASE("parts of different formats stack along the rows with one bias") {
  const auto backend = exact();
  const Stored parts[] = {random_stored(WeightFormat::kQ4_0, 8, 256, 1),
                          random_stored(WeightFormat::kQ4_K, 4, 256, 2),
                          random_stored(WeightFormat::kQ6_K, 4, 256, 3)};
  const StoredMatrix matrices[] = {parts[0].matrix, parts[1].matrix, parts[2].matrix};
  std::vector<float> bias(16);
  for (int i = 0; i < 16; ++i) bias[i] = 0.25f * static_cast<float>(i);

  Matrix w(16, 256);
  auto at = w.values.begin();
  for (const Stored& part : parts) {
    const Matrix rows = expanded(part.matrix);
    at = std::copy(rows.values.begin(), rows.values.end(), at);
  }
  const Weight loaded = backend->load(matrices, bias);
  CHECK(loaded.rows == 16);
  const Matrix x = random_matrix(3, 256, 4);
  StepOf step = StepOf::one_row(3);
  backend->begin_step(step.step());
  const Tensor y = backend->linear(input(*backend, step, x), loaded);
  CHECK(relative_error(backend->read(y), product(x, w, bias)) < kExactTolerance);
}

TEST_CASE("a row order is followed in every kind of format") {
  const auto backend = exact();
  Stored all[] = {
      random_stored(WeightFormat::kBF16, 6, 64, 1), random_stored(WeightFormat::kQ5_1, 6, 64, 2),
      random_affine(4, 32, DType::kF16, 6, 64, 3), random_stored(WeightFormat::kQ6_K, 6, 256, 3)};
  for (Stored& stored : all) {
    CAPTURE(stored.matrix.name);
    stored.matrix.row_order = {5, 0, 3, 1, 4, 2};
    CHECK(product_error(*backend, stored, 2) < kExactTolerance);
  }
}

TEST_CASE("weight bytes count what was loaded, and a handle copied costs nothing") {
  const auto backend = exact();
  const Stored stored = random_stored(WeightFormat::kQ4_0, 8, 64, 5);
  const Weight w = backend->load(std::span(&stored.matrix, 1));
  const int64_t once = backend->weight_bytes();
  CHECK(once == 8 * 64 / 2 + 2 * 8 * 2 * 4);  // codes, f32 scales and biases
  const Weight tied = w;
  CHECK(tied.storage == w.storage);
  CHECK(backend->weight_bytes() == once);
}

TEST_CASE("half products of large activations do not overflow") {
  const auto backend = half();
  const Stored stored = random_stored(WeightFormat::kQ8_0, 8, 256, 6);
  Matrix x = random_matrix(2, 256, 8);
  for (double& value : x.values) value *= 200000;
  StepOf step = StepOf::one_row(2);
  backend->begin_step(step.step());
  const Weight w = backend->load(std::span(&stored.matrix, 1));
  const Tensor y = backend->linear(input(*backend, step, x), w);
  CHECK(relative_error(backend->read(y), product(x, expanded(stored.matrix))) < kHalfTolerance);
}
