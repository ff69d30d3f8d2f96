#include <doctest/doctest.h>

#include <cmath>

#include "backend/cpu/routing.h"
#include "backend_cpu/random_weights.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kExperts = 5, kDim = 64, kInner = 96, kTokens = 40;

// A mixture whose matrices live as long as this.
struct Mixture {
  std::vector<OwnedMatrix> matrices;
  OwnedMatrix router;
  std::vector<StoredExpert> stored;

  Mixture(const Format& format, Random& random)
      : router(random_matrix({WeightFormat::kF32}, kExperts, kDim, random)) {
    for (int64_t e = 0; e < kExperts; e++) {
      matrices.push_back(random_matrix(format, kInner, kDim, random));
      matrices.push_back(random_matrix(format, kInner, kDim, random));
      matrices.push_back(random_matrix(format, kDim, kInner, random));
    }
    for (int64_t e = 0; e < kExperts; e++) {
      stored.push_back(
          {matrices[3 * e].matrix, matrices[3 * e + 1].matrix, matrices[3 * e + 2].matrix});
    }
  }
  MoeWeights load(Backend& be) const {
    return {.router = be.load({&router.matrix, 1}), .experts = be.load_experts(stored)};
  }
};

std::vector<double> product(const StoredMatrix& m, const std::vector<double>& x) {
  std::vector<float> row(m.cols);
  std::vector<double> y(m.rows);
  for (int64_t r = 0; r < m.rows; r++) {
    dequantize_row(m, r, row.data());
    for (int64_t c = 0; c < m.cols; c++) y[r] += row[c] * x[c];
  }
  return y;
}

std::vector<double> reference(const Mixture& mixture, const float* token, const float* residual,
                              const MoeOptions& options) {
  const std::vector<double> x(token, token + kDim);
  const std::vector<double> scores = product(mixture.router.matrix, x);
  const std::vector<float> logits(scores.begin(), scores.end());
  std::vector<double> sum(residual, residual + kDim);
  for (const auto& chosen : cpu::choose_experts(logits, {}, options)) {
    const StoredExpert& expert = mixture.stored[chosen.expert];
    std::vector<double> gate = product(expert.gate, x);
    const std::vector<double> up = product(expert.up, x);
    for (size_t i = 0; i < gate.size(); i++) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    const std::vector<double> down = product(expert.down, gate);
    for (int64_t c = 0; c < kDim; c++) sum[c] += chosen.weight * down[c];
  }
  return sum;
}

std::vector<float> run(Backend& be, const MoeWeights& w, const MoeOptions& options,
                       const std::vector<float>& x, const std::vector<float>& residual) {
  const int64_t n = static_cast<int64_t>(x.size()) / kDim;
  const FlatStep flat(n);
  be.begin_step(flat.step);
  return floats(be, be.moe(tensor(be, x, n), w, options, tensor(be, residual, n)));
}

}  // namespace

TEST_CASE("a mixture of experts in exact precision agrees with double precision on every ISA") {
  Random random(61);
  const Mixture mixture({WeightFormat::kQ8_0}, random);
  const auto x = random.normals(kTokens * kDim), residual = random.normals(kTokens * kDim);
  const MoeOptions options{.top_k = 2};
  for (const cpu::Isa isa : cpu::available_isas()) {
    CAPTURE(cpu::isa_name(isa));
    auto be = backend(isa, Precision::kExact);
    const auto got = run(*be, mixture.load(*be), options, x, residual);
    double worst = 0;
    for (int64_t t = 0; t < kTokens; t++) {
      const auto want = reference(mixture, &x[t * kDim], &residual[t * kDim], options);
      double error = 0, size = 0;  // sums of terms of all sizes: against the largest
      for (int64_t c = 0; c < kDim; c++) {
        error = std::max(error, std::fabs(got[t * kDim + c] - want[c]));
        size = std::max(size, std::fabs(want[c]));
      }
      worst = std::max(worst, error / size);
    }
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("a token's experts give the same bits alone and among others") {
  for (const WeightFormat format :
       {WeightFormat::kQ4_0, WeightFormat::kQ8_0, WeightFormat::kBF16}) {
    for (const Precision precision : {Precision::kExact, Precision::kHigh, Precision::kFast}) {
      Random random(62);
      const Mixture mixture({format}, random);
      const auto x = random.normals(kTokens * kDim), residual = random.normals(kTokens * kDim);
      auto be = backend(cpu::available_isas().back(), precision);
      const MoeWeights w = mixture.load(*be);
      const MoeOptions options{.top_k = 2};
      const auto all = run(*be, w, options, x, residual);
      for (int64_t t = 0; t < kTokens; t += 7) {
        const auto own = [&](const std::vector<float>& values) {
          return std::vector<float>(values.begin() + t * kDim, values.begin() + (t + 1) * kDim);
        };
        CHECK(same_bits(run(*be, w, options, own(x), own(residual)), own(all)));
      }
    }
  }
}
