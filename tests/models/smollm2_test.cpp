// The default model against transformers in float32 on the same dequantised
// weights: greedy ids, log-probabilities, and independence of the batch.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "models/backends.h"
#include "models/real_golden.h"

using namespace tandem;

namespace {

Fidelity measure(Precision precision, double gap_min) {
  return measure_fidelity(open_test_model("default", cpu(precision)),
                          read_real_items("smollm2-135m"), gap_min);
}

}  // namespace

TEST_CASE("SmolLM2 in exact precision: every log-probability within 1e-3, the same greedy ids") {
  const Fidelity f = measure(Precision::kExact, 0.02);
  CHECK(f.worst_logprob < 1e-3);
  CHECK(f.greedy_misses == 0);
}

TEST_CASE("SmolLM2 in the default precision: mean KL below 5e-4, top-1 agreement above 99.5%") {
  const Fidelity f = measure(Precision::kHigh, 0.1);
  CHECK(f.kl_mean() < 5e-4);
  CHECK(f.agreement() > 0.995);
  CHECK(f.greedy_misses == 0);
}

TEST_CASE("SmolLM2 in fast precision: mean KL below 5e-3") {
  CHECK(measure(Precision::kFast, 0.1).kl_mean() < 5e-3);
}

TEST_CASE("SmolLM2 with prompts on tiles keeps the default precision's fidelity") {
  std::vector<RealItem> items = read_real_items("smollm2-135m");
  items.resize(6);  // the emulation is slow
  const TestModel test = open_test_model("default", cpu_of("amx-emulated", Precision::kHigh));
  const Fidelity f = measure_fidelity(test, items, 0.1);
  CHECK(f.kl_mean() < 5e-4);
  CHECK(f.agreement() > 0.995);
  CHECK(f.greedy_misses == 0);
}

TEST_CASE("SmolLM2: AVX2 and AVX-512 give the same bits") {
  const std::vector<int32_t> prompt = read_real_items("smollm2-135m")[3].prompt;
  const auto logits = [&](const char* isa) {
    const TestModel test = open_test_model("default", cpu_of(isa, Precision::kHigh));
    return ModelRunner(test).run(0, prompt, 512);
  };
  try {
    CHECK(logits("avx2") == logits("avx512"));
  } catch (const Error& error) {
    MESSAGE("not on this machine: " << error.what());
  }
}

TEST_CASE("SmolLM2: a prompt alone, among 16, in chunks of 1, 7 and 512: the same bits") {
  const std::vector<RealItem> items = read_real_items("smollm2-135m");
  const TestModel test = open_test_model("default", cpu(Precision::kHigh));
  std::vector<Chunk> batch;
  for (int row = 0; row < 16; ++row) batch.push_back({row, items[row].prompt});
  auto batched = ModelRunner(test).step(batch);
  for (const Chunk& chunk : {batch[0], batch[5], batch[15]}) {
    for (size_t size : {1, 7, 512}) {
      CAPTURE(size);
      CHECK(ModelRunner(test).run(0, chunk.tokens, size) == batched[chunk.row]);
    }
  }
}

TEST_CASE("SmolLM2: the number of threads does not change a bit") {
  const std::vector<int32_t> prompt = read_real_items("smollm2-135m")[2].prompt;
  const auto logits = [&](int threads) {
    const TestModel test = open_test_model("default", cpu(Precision::kHigh, threads));
    return ModelRunner(test).run(0, prompt, 512);
  };
  CHECK(logits(1) == logits(3));
}

#ifdef TANDEM_MLX
TEST_CASE("SmolLM2: the MLX backend agrees with the CPU backend in exact precision") {
  const std::vector<int32_t> prompt = {1, 9690, 198, 2683, 359, 253};
  const TestModel a = open_test_model("default", cpu(Precision::kExact));
  const TestModel b = open_test_model("default", mlx(Precision::kExact));
  const auto got = ModelRunner(a).run(0, prompt, 512), want = ModelRunner(b).run(0, prompt, 512);
  for (size_t i = 0; i < prompt.size(); ++i) {
    const auto p = log_softmax(got[i]), q = log_softmax(want[i]);
    for (size_t v = 0; v < p.size(); ++v) REQUIRE(std::abs(p[v] - q[v]) < 1e-3);
  }
}
#endif
