// The default model against transformers in float32 on the same dequantised
// weights: greedy ids, log-probabilities, and independence of the batch.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/backends.h"
#include "models/model_runner.h"

using namespace tandem;

namespace {

constexpr size_t kTop = 64;

struct Item {
  std::string name;
  std::vector<int32_t> prompt, output;
  std::vector<double> gaps;         // how far each output token led, in logits
  std::vector<int32_t> top_ids;     // [48 * kTop]
  std::vector<float> top_logprobs;  // [48 * (kTop + 1)], the last: all others together
};

template <typename T>
std::vector<T> read_block(std::ifstream& file, size_t count) {
  std::vector<T> values(count);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  REQUIRE(file.good());
  return values;
}

std::vector<Item> read_items() {
  const auto folder = std::filesystem::path(TANDEM_GOLDENS) / "smollm2-135m";
  const auto golden = nlohmann::json::parse(std::ifstream(folder / "golden.json"));
  std::ifstream ids(folder / "top_ids.u16", std::ios::binary);
  std::ifstream logprobs(folder / "top_logprobs.f32", std::ios::binary);
  std::vector<Item> items;
  for (const auto& in : golden["items"]) {
    Item item{.name = in["name"],
              .prompt = in["prompt_ids"],
              .output = in["output_ids"],
              .gaps = in["gaps"]};
    const auto top = read_block<uint16_t>(ids, item.output.size() * kTop);
    item.top_ids.assign(top.begin(), top.end());
    item.top_logprobs = read_block<float>(logprobs, item.output.size() * (kTop + 1));
    items.push_back(std::move(item));
  }
  REQUIRE(items.size() >= 20);
  return items;
}

// Lower bound of KL(reference || tested) at output position i: all ids outside
// the reference's top are one lump.
double kl_at(const Item& item, size_t i, const std::vector<double>& tested) {
  const float* reference = &item.top_logprobs[i * (kTop + 1)];
  double kl = 0, covered = 0;
  for (size_t t = 0; t < kTop; ++t) {
    const double q = tested[item.top_ids[i * kTop + t]];
    kl += std::exp(reference[t]) * (reference[t] - q);
    covered += std::exp(q);
  }
  const double rest = reference[kTop];
  return kl + std::exp(rest) * (rest - std::log(std::max(1 - covered, 1e-12)));
}

struct Fidelity {
  double kl_sum = 0, worst_logprob = 0;
  int positions = 0, agreeing = 0;
  int greedy_misses = 0;  // wrong tokens before the first gap below the bound

  double kl_mean() const { return kl_sum / positions; }
  double agreement() const { return static_cast<double>(agreeing) / positions; }
};

// Teacher-forced: the reference's own ids go in, whatever the model prefers.
ModelRunner::Logits output_logits(const TestModel& test, const Item& item) {
  std::vector<int32_t> tokens = item.prompt;
  tokens.insert(tokens.end(), item.output.begin(), item.output.end() - 1);
  ModelRunner::Logits all = ModelRunner(test).run(0, tokens, tokens.size());
  return {all.begin() + static_cast<std::ptrdiff_t>(item.prompt.size()) - 1, all.end()};
}

Fidelity measure(const TestModel& test, double gap_min) {
  Fidelity f;
  for (const Item& item : read_items()) {
    const ModelRunner::Logits logits = output_logits(test, item);
    bool clear = true;  // no close call so far
    for (size_t i = 0; i < item.output.size(); ++i) {
      const std::vector<double> tested = log_softmax(logits[i]);
      const bool same = argmax(logits[i]) == item.output[i];
      f.kl_sum += kl_at(item, i, tested);
      f.agreeing += same;
      ++f.positions;
      clear = clear && item.gaps[i] >= gap_min;
      if (clear && !same) ++f.greedy_misses;
      for (size_t t = 0; t < kTop; ++t) {
        const double error =
            tested[item.top_ids[i * kTop + t]] - item.top_logprobs[i * (kTop + 1) + t];
        f.worst_logprob = std::max(f.worst_logprob, std::abs(error));
      }
    }
  }
  MESSAGE("mean KL " << f.kl_mean() << ", top-1 agreement " << f.agreement()
                     << ", worst log-probability error " << f.worst_logprob);
  return f;
}

}  // namespace

TEST_CASE("SmolLM2 in exact precision: every log-probability within 1e-3, the same greedy ids") {
  const Fidelity f = measure(open_test_model("default", cpu(Precision::kExact)), 0.02);
  CHECK(f.worst_logprob < 1e-3);
  CHECK(f.greedy_misses == 0);
}

TEST_CASE("SmolLM2 in the default precision: mean KL below 5e-4, top-1 agreement above 99.5%") {
  const Fidelity f = measure(open_test_model("default", cpu(Precision::kHigh)), 0.1);
  CHECK(f.kl_mean() < 5e-4);
  CHECK(f.agreement() > 0.995);
  CHECK(f.greedy_misses == 0);
}

TEST_CASE("SmolLM2 in fast precision: mean KL below 5e-3") {
  CHECK(measure(open_test_model("default", cpu(Precision::kFast)), 0.1).kl_mean() < 5e-3);
}

TEST_CASE("SmolLM2: a prompt alone, among 16, in chunks of 1, 7 and 512: the same bits") {
  const std::vector<Item> items = read_items();
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
  const std::vector<int32_t> prompt = read_items()[2].prompt;
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
