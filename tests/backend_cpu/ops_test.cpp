#include <doctest/doctest.h>

#include <limits>

#include "backend/cpu/kernels/ref/reference.h"
#include "backend_cpu/random_weights.h"
#include "base/error.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const std::vector<Activation> kActivations = {Activation::kSilu, Activation::kGelu,
                                              Activation::kGeluTanh, Activation::kRelu2,
                                              Activation::kSigmoid};

double worst(const std::vector<float>& got, const std::vector<double>& want) {
  double error = got.size() == want.size() ? 0 : 1e9;
  for (size_t i = 0; i < got.size() && i < want.size(); i++) {
    error = std::max(error, std::fabs(got[i] - want[i]) / std::max(1.0, std::fabs(want[i])));
  }
  return error;
}

// A backend of every instruction set, in a step of n tokens.
template <class F>
void on_every_isa(Precision precision, int64_t n, F&& fn) {
  for (const cpu::Isa isa : cpu::available_isas()) {
    CAPTURE(cpu::isa_name(isa));
    auto be = backend(isa, precision);
    const FlatStep flat(n);
    be->begin_step(flat.step);
    fn(*be);
  }
}

}  // namespace

TEST_CASE("norms agree with double precision at any width, and to the bit across ISAs") {
  Random random(21);
  for (const int64_t cols : {1, 7, 16, 60, 576}) {
    for (const bool layer_norm : {false, true}) {
      const auto x = random.normals(3 * cols);
      const auto w = random.normals(cols);
      const auto bias = random.normals(cols);
      std::vector<float> first;
      on_every_isa(Precision::kHigh, 3, [&](Backend& be) {
        NormOptions options;
        options.layer_norm = layer_norm;
        const Tensor y = be.norm(tensor(be, x, 3), be.load_vector(w), options,
                                 layer_norm ? be.load_vector(bias) : Weight{});
        const auto got = floats(be, y);
        for (int64_t t = 0; t < 3; t++) {
          const auto want =
              cpu::ref::norm({x.data() + t * cols, static_cast<size_t>(cols)}, w,
                             layer_norm ? std::span<const float>(bias) : std::span<const float>{},
                             options.eps, layer_norm);
          CHECK(worst({got.begin() + t * cols, got.begin() + (t + 1) * cols}, want) < 2e-5);
        }
        if (first.empty()) first = got;
        CHECK(same_bits(first, got));
      });
    }
  }
}

TEST_CASE("activations agree with double precision, and to the bit across ISAs") {
  std::vector<float> x;
  for (int i = -400; i <= 400; i++) x.push_back(static_cast<float>(i) * 0.05f);
  x.insert(x.end(), {0.0f, 1e-8f, -1e-8f, 80.0f, -80.0f, 500.0f, -500.0f});
  for (const Activation activation : kActivations) {
    std::vector<double> want;
    for (const float value : x) want.push_back(cpu::ref::activate(activation, value));
    std::vector<float> first;
    on_every_isa(Precision::kHigh, 1, [&](Backend& be) {
      const auto got = floats(be, be.activate(tensor(be, x, 1), activation));
      CHECK(worst(got, want) < 1e-6);
      if (first.empty()) first = got;
      CHECK(same_bits(first, got));
    });
  }
}

TEST_CASE("NaN stays NaN through activations") {
  const std::vector<float> x(16, kNaN);
  for (const Activation activation : kActivations) {
    on_every_isa(Precision::kHigh, 1, [&](Backend& be) {
      for (const float y : floats(be, be.activate(tensor(be, x, 1), activation))) {
        CHECK(std::isnan(y));
      }
    });
  }
}

TEST_CASE("a linear layer adds bias, scales and adds the residual") {
  Random random(22);
  const OwnedMatrix a = random_matrix({WeightFormat::kQ4_K}, 40, 256, random);
  const OwnedMatrix b = random_matrix({WeightFormat::kQ6_K}, 21, 256, random);
  const auto bias = random.normals(61);
  const auto x = random.normals(5 * 256);
  const auto residual = random.normals(5 * 61);
  std::vector<double> want;
  const auto ya = cpu::ref::matmul(a.matrix, x, 5, 16256);
  const auto yb = cpu::ref::matmul(b.matrix, x, 5, 16256);
  for (int t = 0; t < 5; t++) {
    for (int i = 0; i < 61; i++) {
      const double y = i < 40 ? ya[t * 40 + i] : yb[t * 21 + i - 40];
      want.push_back(residual[t * 61 + i] + 0.5 * (y + bias[i]));
    }
  }
  on_every_isa(Precision::kHigh, 5, [&](Backend& be) {
    const StoredMatrix parts[] = {a.matrix, b.matrix};
    const Weight w = be.load(parts, bias);
    CHECK(w.rows == 61);
    CHECK(worst(floats(be, be.linear(tensor(be, x, 5), w, tensor(be, residual, 5), 0.5f)), want) <
          1e-6);
  });
}

TEST_CASE("gate and up may differ in format and have biases") {
  Random random(23);
  const OwnedMatrix gate = random_matrix({WeightFormat::kQ6_K}, 39, 256, random);
  const OwnedMatrix up = random_matrix({WeightFormat::kQ4_K}, 39, 256, random);
  const auto bias = random.normals(78);
  for (const int64_t n : {1, 20}) {
    const auto x = random.normals(n * 256);
    const auto g = cpu::ref::matmul(gate.matrix, x, n, 16256);
    const auto u = cpu::ref::matmul(up.matrix, x, n, 16256);
    std::vector<double> want;
    for (size_t i = 0; i < g.size(); i++) {
      const double activated = cpu::ref::activate(Activation::kSilu, g[i] + bias[i % 39]);
      want.push_back(activated * (u[i] + bias[39 + i % 39]));
    }
    on_every_isa(Precision::kHigh, n, [&](Backend& be) {
      const Weight w = be.load_gate_up(gate.matrix, up.matrix, bias);
      CHECK(worst(floats(be, be.gate_up(tensor(be, x, n), w, Activation::kSilu)), want) < 2e-6);
    });
  }
}

TEST_CASE("embedding and head share one buffer") {
  Random random(24);
  const OwnedMatrix stored = random_matrix({WeightFormat::kQ8_0}, 100, 64, random);
  on_every_isa(Precision::kExact, 3, [&](Backend& be) {
    const Weight table = be.load({&stored.matrix, 1});
    const int64_t bytes = be.weight_bytes();
    CHECK(bytes >= static_cast<int64_t>(stored.data.size()));
    const Weight head = table;
    CHECK(be.weight_bytes() == bytes);

    FlatStep flat(3);
    flat.tokens = {99, 0, 42};
    flat.step.tokens = flat.tokens;
    be.begin_step(flat.step);
    const Tensor x = be.embed(table, 2.0f, flat.step);
    std::vector<double> want;
    for (const int32_t token : flat.tokens) {
      std::vector<float> row(64);
      dequantize_row(stored.matrix, token, row.data());
      for (const float value : row) want.push_back(2.0 * value);
    }
    CHECK(worst(floats(be, x), want) < 1e-6);

    const auto logits = floats(be, be.head(x, head, 3.0f, 30.0f));
    const auto raw = cpu::ref::matmul(stored.matrix, floats(be, x), 3, 0);
    std::vector<double> capped;
    for (const float value : raw) capped.push_back(30.0 * std::tanh(3.0 * value / 30.0));
    CHECK(worst(logits, capped) < 1e-5);
  });
}

TEST_CASE("a weight's bytes are counted until its last handle is gone") {
  Random random(25);
  const OwnedMatrix stored = random_matrix({WeightFormat::kQ4_0}, 64, 64, random);
  auto be = backend(cpu::Isa::kScalar, Precision::kHigh);
  {
    const Weight w = be->load({&stored.matrix, 1});
    CHECK(be->weight_bytes() > 0);
  }
  CHECK(be->weight_bytes() == 0);
}

TEST_CASE("a token id outside the vocabulary is an error that names it") {
  Random random(26);
  const OwnedMatrix stored = random_matrix({WeightFormat::kF16}, 10, 32, random);
  auto be = backend(cpu::Isa::kScalar, Precision::kHigh);
  const Weight table = be->load({&stored.matrix, 1});
  FlatStep flat(1);
  flat.tokens = {10};
  flat.step.tokens = flat.tokens;
  be->begin_step(flat.step);
  CHECK_THROWS_WITH_AS(be->embed(table, 1.0f, flat.step), doctest::Contains("got 10"), Error);
}

TEST_CASE("small ops do what their names say") {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {10, 20, 30, 40, 50, 60};
  on_every_isa(Precision::kHigh, 2, [&](Backend& be) {
    const Tensor x = tensor(be, a, 2);
    const Tensor y = tensor(be, b, 2);
    CHECK(floats(be, be.add(x, y)) == std::vector<float>{11, 22, 33, 44, 55, 66});
    CHECK(floats(be, be.multiply(x, y)) == std::vector<float>{10, 40, 90, 160, 250, 360});
    CHECK(floats(be, be.scale(x, 0.5f)) == std::vector<float>{0.5f, 1, 1.5f, 2, 2.5f, 3});
    CHECK(floats(be, be.columns(x, 1, 3)) == std::vector<float>{2, 3, 5, 6});
    FlatStep flat(2);
    const std::vector<int32_t> outputs = {1};
    flat.step.outputs = outputs;
    CHECK(floats(be, be.select_outputs(x, flat.step)) == std::vector<float>{4, 5, 6});
  });
}

TEST_CASE("NaN and infinity reach the outputs of their token, and no other") {
  Random random(27);
  for (const Format& format :
       {Format{WeightFormat::kQ4_1}, Format{WeightFormat::kQ6_K}, Format{WeightFormat::kBF16}}) {
    const OwnedMatrix stored = random_matrix(format, 33, 256, random);
    for (const float poison : {kNaN, kInfinity, -kInfinity}) {
      for (const Precision precision : {Precision::kExact, Precision::kHigh, Precision::kFast}) {
        for (const int64_t n : {3, 12}) {
          auto x = random.normals(n * 256);
          x[256 + 77] = poison;
          on_every_isa(precision, n, [&](Backend& be) {
            const auto y = floats(be, be.linear(tensor(be, x, n), be.load({&stored.matrix, 1})));
            for (size_t i = 0; i < y.size(); i++) CHECK(std::isfinite(y[i]) == (i / 33 != 1));
          });
        }
      }
    }
  }
}

TEST_CASE("zeros, tiny and huge activations quantise without harm") {
  Random random(28);
  const OwnedMatrix stored = random_matrix({WeightFormat::kQ4_0}, 32, 128, random);
  auto x = random.normals(4 * 128);
  for (int i = 0; i < 128; i++) {
    x[i] = 0;
    x[128 + i] = 1e-40f;
    x[256 + i] = i == 5 ? 3e38f : 0.0f;
    x[384 + i] *= i < 32 ? 1e20f : 1.0f;
  }
  std::vector<float> zero(32, 0.0f);
  for (const Precision precision : {Precision::kHigh, Precision::kFast}) {
    const int limit = precision == Precision::kHigh ? 16256 : 127;
    on_every_isa(precision, 4, [&](Backend& be) {
      const auto y = floats(be, be.linear(tensor(be, x, 4), be.load({&stored.matrix, 1})));
      CHECK(std::vector<float>(y.begin(), y.begin() + 32) == zero);
      CHECK(same_bits(y, cpu::ref::matmul(stored.matrix, x, 4, limit)));
      for (const float value : y) CHECK(std::isfinite(value));
    });
  }
}

TEST_CASE("a token's projection has the same bits alone, in any batch and on any threads") {
  Random random(29);
  for (const Precision precision : {Precision::kExact, Precision::kHigh, Precision::kFast}) {
    for (const Format& format :
         {Format{WeightFormat::kQ4_1}, Format{WeightFormat::kQ6_K}, Format{WeightFormat::kF16}}) {
      const OwnedMatrix stored = random_matrix(format, 200, 768, random);
      const int64_t n = 201;  // past one block of tokens
      const auto x = random.normals(n * 768);
      std::vector<float> alone;
      auto single = backend(cpu::available_isas().back(), precision, 1);
      const Weight w = single->load({&stored.matrix, 1});
      for (int64_t t = 0; t < n; t++) {
        const FlatStep flat(1);
        single->begin_step(flat.step);
        const std::vector<float> row(x.begin() + t * 768, x.begin() + (t + 1) * 768);
        const auto y = floats(*single, single->linear(tensor(*single, row, 1), w));
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (const int threads : {1, 2, 3}) {
        auto be = backend(cpu::available_isas().back(), precision, threads);
        const FlatStep flat(n);
        be->begin_step(flat.step);
        CHECK(same_bits(alone,
                        floats(*be, be->linear(tensor(*be, x, n), be->load({&stored.matrix, 1})))));
      }
    }
  }
}

TEST_CASE("memory of dropped tensors is used again within a step") {
  auto be = backend(cpu::Isa::kScalar, Precision::kHigh);
  const FlatStep flat(1);
  be->begin_step(flat.step);
  const Tensor x = tensor(*be, std::vector<float>(64, 1.0f), 1);
  const float* first = be->read(be->scale(x, 2.0f)).data();
  const Tensor kept = be->scale(x, 3.0f);
  CHECK(be->read(kept).data() == first);
  CHECK(be->read(be->scale(x, 4.0f)).data() != first);
  CHECK(be->read(kept)[0] == 3.0f);
}
