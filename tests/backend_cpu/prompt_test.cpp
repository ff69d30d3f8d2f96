// Prompt tokens on tile registers: the machine's where it has them, and emulated.
#include <doctest/doctest.h>

#include "backend/cpu/kernels/ref/reference.h"
#include "backend_cpu/random_weights.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::vector<cpu::Isa> isas_with_tiles() {
  std::vector<cpu::Isa> isas;
  for (const cpu::Isa isa : cpu::testable_isas()) {
    if (isa == cpu::Isa::kAmx || isa == cpu::Isa::kAmxEmulated) isas.push_back(isa);
  }
  return isas;
}

// x W^T (+ residual), token t being of a prompt where prompt[t].
std::vector<float> run(Backend& be, const Weight& weight, const std::vector<float>& x,
                       const std::vector<bool>& prompt, bool residual = false) {
  const auto n = static_cast<int64_t>(prompt.size());
  const FlatStep flat(n, prompt);
  be.begin_step(flat.step);
  const std::vector<float> ones(n * weight.rows, 1.0f);
  return floats(be, be.linear(tensor(be, x, n), weight, residual ? tensor(be, ones, n) : Tensor{}));
}

std::vector<float> token(const std::vector<float>& x, int64_t t, int64_t cols) {
  return {x.begin() + t * cols, x.begin() + (t + 1) * cols};
}

}  // namespace

TEST_CASE("prompt tokens give the reference's bits for every format and row count") {
  Random random(51);
  std::vector<Format> formats = quantised_formats();
  for (const Format& format : dense_formats()) formats.push_back(format);
  for (const Format& format : formats) {
    const bool dense = format.bits == 0 && block_columns(format.format) == 1;
    const int64_t cols = dense ? 83 : 768;  // more groups than are expanded at once
    const OwnedMatrix w = random_matrix(format, 37, cols, random);
    const auto x = random.normals(70 * cols);
    const auto want = cpu::ref::prompt_matmul(w.matrix, x, 70);
    for (const cpu::Isa isa : isas_with_tiles()) {
      auto be = backend(isa, Precision::kHigh);
      const Weight weight = be->load({&w.matrix, 1});
      for (const int64_t n : {1, 16, 17, 33, 70}) {
        CAPTURE(cpu::isa_name(isa));
        CAPTURE(format.name());
        CAPTURE(n);
        const auto got =
            run(*be, weight, {x.begin(), x.begin() + n * cols}, std::vector<bool>(n, true));
        CHECK(same_bits(got, {want.begin(), want.begin() + n * 37}));
      }
    }
  }
}

TEST_CASE("denormal, huge and infinite activations meet tiles as the instruction defines") {
  Random random(52);
  const OwnedMatrix w = random_matrix({WeightFormat::kBF16}, 16, 64, random);
  auto x = random.normals(4 * 64);
  for (int i = 0; i < 64; i++) x[i] *= 3e-37f;
  for (int i = 64; i < 128; i++) x[i] *= 1e-39f;
  for (int i = 128; i < 192; i++) x[i] *= 1e38f;
  x[200] = std::numeric_limits<float>::infinity();
  const auto want = cpu::ref::prompt_matmul(w.matrix, x, 4);
  for (const cpu::Isa isa : isas_with_tiles()) {
    auto be = backend(isa, Precision::kHigh);
    CAPTURE(cpu::isa_name(isa));
    CHECK(same_bits(run(*be, be->load({&w.matrix, 1}), x, {true, true, true, true}), want));
  }
}

TEST_CASE("a token's path depends on its own phase, whatever else is in the step") {
  Random random(53);
  const OwnedMatrix w = random_matrix({WeightFormat::kQ4_1}, 48, 576, random);
  const std::vector<bool> phases = {false, true, true, false, false, true, true, true, false};
  const auto x = random.normals(9 * 576);
  for (const Precision precision : {Precision::kHigh, Precision::kFast}) {
    for (const cpu::Isa isa : isas_with_tiles()) {
      auto be = backend(isa, precision);
      const Weight weight = be->load({&w.matrix, 1});
      const auto together = run(*be, weight, x, phases, true);
      for (int64_t t = 0; t < 9; t++) {
        CAPTURE(t);
        const auto alone = run(*be, weight, token(x, t, 576), {phases[t]}, true);
        CHECK(same_bits(token(together, t, 48), alone));
        const auto other = run(*be, weight, token(x, t, 576), {!phases[t]}, true);
        CHECK_FALSE(same_bits(alone, other));
      }
    }
  }
}

TEST_CASE("a prompt of more tokens than one call takes gives each token its own bits") {
  Random random(54);
  const OwnedMatrix w = random_matrix({WeightFormat::kQ4_0}, 16, 32, random);
  const int64_t n = 2 * cpu::kPromptTokens + 40;
  const auto x = random.normals(n * 32);
  auto be = backend(cpu::testable_isas().back(), Precision::kHigh, 3);
  const Weight weight = be->load({&w.matrix, 1});
  CHECK(same_bits(run(*be, weight, x, std::vector<bool>(n, true)),
                  cpu::ref::prompt_matmul(w.matrix, x, n)));
}

TEST_CASE("exact precision has no tiles") {
  Random random(55);
  const OwnedMatrix w = random_matrix({WeightFormat::kQ4_0}, 16, 64, random);
  const auto x = random.normals(64);
  auto tiles = backend(cpu::Isa::kAmxEmulated, Precision::kExact);
  auto plain = backend(cpu::Isa::kScalar, Precision::kExact);
  CHECK(same_bits(run(*tiles, tiles->load({&w.matrix, 1}), x, {true}),
                  run(*plain, plain->load({&w.matrix, 1}), x, {true})));
}
