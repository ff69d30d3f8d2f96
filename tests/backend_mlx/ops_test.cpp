#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "backend_mlx/rig.h"
#include "base/error.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kTolerance = 2e-6;

struct Fixture {
  std::unique_ptr<Backend> backend = make_mlx_backend({.precision = Precision::kExact});
  StepOf step = StepOf::one_row(5);
  Matrix x = random_matrix(5, 64, 21);

  Tensor begin() {
    backend->begin_step(step.step());
    return input(*backend, step, x);
  }
  double error(const Tensor& y, const Matrix& want) {
    return relative_error(backend->read(y), want);
  }
};

Matrix each(Matrix m, const std::function<double(double)>& f) {
  for (double& value : m.values) value = f(value);
  return m;
}

double activation_of(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu2: return x > 0 ? x * x : 0;
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
  }
  return 0;
}

const Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                                   Activation::kRelu2, Activation::kSigmoid};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "media embeddings replace the rows of their tokens") {
  const Stored table = random_stored(WeightFormat::kF32, 7, 64, 1);
  const Matrix rows = expanded(table.matrix), media = random_matrix(2, 64, 2);
  step.tokens = {3, -1, 6, -1, 0};
  step.embeddings = media.floats();
  step.embedding_token = {1, 3};
  backend->begin_step(step.step());
  Matrix want(5, 64);
  for (int c = 0; c < 64; ++c) {
    for (const int t : {0, 2, 4}) want.at(t, c) = 2 * rows.at(step.tokens[t], c);
    want.at(1, c) = 2 * media.at(0, c);
    want.at(3, c) = 2 * media.at(1, c);
  }
  const Weight w = backend->load(std::span(&table.matrix, 1));
  CHECK(error(backend->embed(w, 2.0f, step.step()), want) < kTolerance);
}

TEST_CASE_FIXTURE(Fixture, "a token id beyond the table is an error that names it") {
  const Stored table = random_stored(WeightFormat::kF32, 7, 64, 1);
  const Weight w = backend->load(std::span(&table.matrix, 1));
  step.tokens[2] = 7;
  backend->begin_step(step.step());
  try {
    backend->embed(w, 1.0f, step.step());
    FAIL("must throw");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kInvalid);
    CHECK(std::string(e.what()) == "[embed] token id must be from 0 to 6, got 7");
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "RMS norm divides by the root mean square and multiplies by the weight") {
  const Matrix w = random_matrix(1, 64, 22);
  Matrix want(5, 64);
  for (int r = 0; r < 5; ++r) {
    double sum = 0;
    for (int c = 0; c < 64; ++c) sum += x.at(r, c) * x.at(r, c);
    for (int c = 0; c < 64; ++c) {
      want.at(r, c) = x.at(r, c) / std::sqrt(sum / 64 + 1e-3) * w.at(0, c);
    }
  }
  const Tensor y = backend->norm(begin(), backend->load_vector(w.floats()), {.eps = 1e-3f});
  CHECK(error(y, want) < kTolerance);
}

TEST_CASE_FIXTURE(Fixture, "layer norm subtracts the mean and adds its bias") {
  const Matrix w = random_matrix(1, 64, 22), b = random_matrix(1, 64, 23);
  Matrix want(5, 64);
  for (int r = 0; r < 5; ++r) {
    double mean = 0, variance = 0;
    for (int c = 0; c < 64; ++c) mean += x.at(r, c) / 64;
    for (int c = 0; c < 64; ++c) variance += std::pow(x.at(r, c) - mean, 2) / 64;
    for (int c = 0; c < 64; ++c) {
      want.at(r, c) = (x.at(r, c) - mean) / std::sqrt(variance + 1e-5) * w.at(0, c) + b.at(0, c);
    }
  }
  const Tensor y = backend->norm(begin(), backend->load_vector(w.floats()), {.layer_norm = true},
                                 backend->load_vector(b.floats()));
  CHECK(error(y, want) < kTolerance);
}

TEST_CASE_FIXTURE(Fixture, "linear scales its product and adds the residual") {
  const Stored stored = random_stored(WeightFormat::kQ8_0, 64, 64, 3);
  const Weight w = backend->load(std::span(&stored.matrix, 1));
  Matrix want = product(x, expanded(stored.matrix));
  for (size_t i = 0; i < want.values.size(); ++i) {
    want.values[i] = x.values[i] + 0.25 * want.values[i];
  }
  const Tensor in = begin();
  CHECK(error(backend->linear(in, w, in, 0.25f), want) < kTolerance);
}

TEST_CASE_FIXTURE(Fixture, "gate and up meet in the product of one activation") {
  const Stored gate = random_stored(WeightFormat::kQ4_0, 32, 64, 4);
  const Stored same = random_stored(WeightFormat::kQ4_0, 32, 64, 5);
  const Stored other = random_stored(WeightFormat::kQ8_0, 32, 64, 6);
  const std::vector<float> bias = random_matrix(1, 64, 7).floats();
  const std::span<const float> all = bias;
  for (const Stored* up : {&same, &other}) {
    const Weight w = backend->load_gate_up(gate.matrix, up->matrix, bias);
    const Matrix g = product(x, expanded(gate.matrix), all.first(32));
    const Matrix u = product(x, expanded(up->matrix), all.last(32));
    for (const Activation activation : kActivations) {
      Matrix want = g;
      for (size_t i = 0; i < want.values.size(); ++i) {
        want.values[i] = activation_of(activation, g.values[i]) * u.values[i];
      }
      CHECK(error(backend->gate_up(begin(), w, activation), want) < kTolerance);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "small ops do what their names say") {
  const Matrix other = random_matrix(5, 64, 24);
  const Tensor a = begin();
  const Tensor b = input(*backend, step, other);
  Matrix sum = x, times = x;
  for (size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] += other.values[i];
    times.values[i] *= other.values[i];
  }
  CHECK(error(backend->add(a, b), sum) < kTolerance);
  CHECK(error(backend->multiply(a, b), times) < kTolerance);
  CHECK(error(backend->scale(a, -3.0f), each(x, [](double v) { return -3 * v; })) < kTolerance);
  for (const Activation activation : kActivations) {
    const Matrix want = each(x, [&](double v) { return activation_of(activation, v); });
    CHECK(error(backend->activate(a, activation), want) < kTolerance);
  }
  Matrix middle(5, 7);
  for (int r = 0; r < 5; ++r) {
    for (int c = 0; c < 7; ++c) middle.at(r, c) = x.at(r, c + 30);
  }
  CHECK(error(backend->columns(a, 30, 37), middle) == 0);
}

TEST_CASE_FIXTURE(Fixture, "the head gives capped logits of the chosen tokens only") {
  const Stored stored = random_stored(WeightFormat::kBF16, 40, 64, 8);
  const Weight w = backend->load(std::span(&stored.matrix, 1));
  step.outputs = {1, 4};
  const Tensor chosen = backend->select_outputs(begin(), step.step());
  CHECK(chosen.rows == 2);
  Matrix rows(2, 64);
  for (int c = 0; c < 64; ++c) {
    rows.at(0, c) = x.at(1, c);
    rows.at(1, c) = x.at(4, c);
  }
  const Matrix plain = product(rows, expanded(stored.matrix));
  CHECK(error(backend->head(chosen, w, 0.5f, 0), each(plain, [](double v) { return v / 2; })) <
        kTolerance);
  CHECK(error(backend->head(chosen, w, 1.0f, 2.0f),
              each(plain, [](double v) { return 2 * std::tanh(v / 2); })) < kTolerance);
}

TEST_CASE_FIXTURE(Fixture, "a step without outputs passes through norm and head as no rows") {
  const Stored stored = random_stored(WeightFormat::kQ4_1, 40, 64, 8);
  const Weight w = backend->load(std::span(&stored.matrix, 1));
  const std::vector<float> ones(64, 1.0f);
  const Tensor none = backend->select_outputs(begin(), step.step());
  const Tensor logits =
      backend->head(backend->norm(none, backend->load_vector(ones), {}), w, 1, 30);
  CHECK(logits.rows == 0);
  CHECK(logits.cols == 40);
  CHECK(backend->read(logits).empty());
}
