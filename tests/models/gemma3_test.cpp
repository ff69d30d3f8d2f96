// Gemma 3 270M's real weights (Q4_K_M) against transformers in float32 on the same
// dequantised weights, past the window of 512 tokens too.
#include <doctest/doctest.h>

#include <filesystem>

#include "models/backends.h"
#include "models/load/locate.h"
#include "models/real_golden.h"

using namespace tandem;

namespace {

Fidelity measure(Precision precision, double gap_min) {
  const std::filesystem::path beside = locate_model("default").path;
  const auto path = beside.parent_path() / "gemma-3-270m.Q4_K_M.gguf";
  return measure_fidelity(open_test_model(path.string(), cpu(precision)),
                          read_real_items("gemma3-270m"), gap_min);
}

}  // namespace

TEST_CASE("Gemma 3 270M in exact precision: log-probabilities within 1e-3, the same greedy ids") {
  const Fidelity f = measure(Precision::kExact, 0.1);
  CHECK(f.worst_logprob < 1e-3);
  CHECK(f.greedy_misses == 0);
}

TEST_CASE("Gemma 3 270M in the default precision: mean KL below 5e-4, the same greedy ids") {
  const Fidelity f = measure(Precision::kHigh, 0.1);
  CHECK(f.kl_mean() < 5e-4);
  CHECK(f.greedy_misses == 0);
}
