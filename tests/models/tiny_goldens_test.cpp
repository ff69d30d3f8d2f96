// Every tiny model against transformers in float32, on both backends.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/backends.h"
#include "models/model_runner.h"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

struct GoldenCase {
  std::vector<int32_t> prompt, greedy;
  std::vector<std::vector<float>> logits;  // one a prompt token
};

std::vector<GoldenCase> read_golden(const fs::path& folder) {
  const auto json = nlohmann::json::parse(std::ifstream(folder / "golden.json"));
  const auto vocab = json["vocab_size"].get<size_t>();
  std::ifstream bin(folder / "golden.bin", std::ios::binary);
  std::vector<GoldenCase> cases;
  for (const auto& item : json["cases"]) {
    GoldenCase golden{.prompt = item["prompt_ids"], .greedy = item["greedy_ids"]};
    bin.seekg(item["logits_offset"].get<std::streamoff>() * 4);
    for (size_t i = 0; i < item["logits_rows"].get<size_t>(); ++i) {
      std::vector<float> row(vocab);
      bin.read(reinterpret_cast<char*>(row.data()), static_cast<std::streamsize>(vocab * 4));
      golden.logits.push_back(row);
    }
    REQUIRE(bin.good());
    cases.push_back(golden);
  }
  REQUIRE(!cases.empty());
  return cases;
}

std::vector<fs::path> tiny_models() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(fs::path(TANDEM_GOLDENS) / "tiny")) {
    if (fs::exists(entry.path() / "golden.json")) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  REQUIRE(folders.size() >= 40);
  return folders;
}

std::string model_path(const fs::path& folder) {
  const fs::path gguf = folder / "model.gguf";
  return fs::exists(gguf) ? gguf.string() : folder.string();
}

double worst_logprob_error(const ModelRunner::Logits& got,
                           const std::vector<std::vector<float>>& want) {
  REQUIRE(got.size() >= want.size());
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto a = log_softmax(got[i]), b = log_softmax(want[i]);
    for (size_t v = 0; v < a.size(); ++v) worst = std::max(worst, std::abs(a[v] - b[v]));
  }
  return worst;
}

// Prompt at once, then one token at a time, as an engine would.
void check_against_golden(const TestModel& test, const GoldenCase& golden, double bound) {
  ModelRunner runner(test);
  auto logits = runner.run(0, golden.prompt, golden.prompt.size());
  CHECK(worst_logprob_error(logits, golden.logits) < bound);
  std::vector<int32_t> greedy;
  int32_t next = argmax(logits.back());
  while (greedy.size() < golden.greedy.size()) {
    greedy.push_back(next);
    next = argmax(runner.run(0, {next}, 1).back());
  }
  CHECK(greedy == golden.greedy);
}

// One family for each kind of cache: sliding, state, latent; and mixtures of experts.
const char* const kFamilies[] = {"gemma2",      "gemma3",    "mistral-window", "qwen3",
                                 "qwen3_next",  "qwen3_5",   "lfm2",           "deepseek_v2",
                                 "deepseek_v3", "qwen3_moe", "qwen2_moe",      "mixtral"};

// All rows of a golden side by side: a few tokens of each prompt a step, as many as
// the row's number, then its greedy tokens.
void check_ragged(const TestModel& test, const std::vector<GoldenCase>& goldens, double bound) {
  ModelRunner runner(test);
  std::vector<ModelRunner::Logits> logits(goldens.size());
  std::vector<size_t> done(goldens.size());
  while (true) {
    std::vector<Chunk> chunks;
    for (size_t row = 0; row < goldens.size(); ++row) {
      const auto& prompt = goldens[row].prompt;
      const size_t end = std::min(prompt.size(), done[row] + 1 + 3 * row);
      if (done[row] == end) continue;
      chunks.push_back({static_cast<int>(row), {prompt.begin() + done[row], prompt.begin() + end}});
      done[row] = end;
    }
    if (chunks.empty()) break;
    auto step = runner.step(chunks);
    for (auto& [row, part] : step) std::ranges::move(part, std::back_inserter(logits[row]));
  }
  std::vector<Chunk> next;
  for (size_t row = 0; row < goldens.size(); ++row) {
    CHECK(worst_logprob_error(logits[row], goldens[row].logits) < bound);
    next.push_back({static_cast<int>(row), {argmax(logits[row].back())}});
  }
  for (size_t i = 0; i < goldens[0].greedy.size(); ++i) {
    for (size_t row = 0; row < goldens.size(); ++row) {
      CHECK(next[row].tokens[0] == goldens[row].greedy[i]);
      next[row].tokens[0] = goldens[row].greedy[i];
    }
    auto step = runner.step(next);
    for (Chunk& chunk : next) chunk.tokens[0] = argmax(step[chunk.row].back());
  }
}

}  // namespace

TEST_CASE("on the CPU backend every tiny model gives the reference's log-probabilities") {
  for (const fs::path& folder : tiny_models()) {
    CAPTURE(folder.filename().string());
    const TestModel test = open_test_model(model_path(folder), cpu(Precision::kExact));
    for (const GoldenCase& golden : read_golden(folder)) check_against_golden(test, golden, 1e-3);
  }
}

#ifdef TANDEM_MLX
TEST_CASE("on the MLX backend every tiny model gives the reference's log-probabilities") {
  for (const fs::path& folder : tiny_models()) {
    CAPTURE(folder.filename().string());
    const TestModel test = open_test_model(model_path(folder), mlx(Precision::kExact));
    for (const GoldenCase& golden : read_golden(folder)) check_against_golden(test, golden, 1e-3);
  }
}
#endif

TEST_CASE("on the CPU backend ragged batches of each family give the reference's tokens") {
  for (const char* name : kFamilies) {
    CAPTURE(name);
    const fs::path folder = fs::path(TANDEM_GOLDENS) / "tiny" / name;
    const TestModel test = open_test_model(folder.string(), cpu(Precision::kExact));
    check_ragged(test, read_golden(folder), 1e-3);
  }
}

#ifdef TANDEM_MLX
TEST_CASE("on the MLX backend ragged batches of each family give the reference's tokens") {
  for (const char* name : kFamilies) {
    CAPTURE(name);
    const fs::path folder = fs::path(TANDEM_GOLDENS) / "tiny" / name;
    const TestModel test = open_test_model(folder.string(), mlx(Precision::kExact));
    check_ragged(test, read_golden(folder), 1e-3);
  }
}
#endif

TEST_CASE("in the default precision each family stays within a mean KL of 5e-4") {
  for (const char* name : kFamilies) {
    CAPTURE(name);
    const fs::path folder = fs::path(TANDEM_GOLDENS) / "tiny" / name;
    const TestModel test = open_test_model(folder.string(), cpu(Precision::kHigh));
    double kl = 0;
    int positions = 0;
    for (const GoldenCase& golden : read_golden(folder)) {
      const auto logits = ModelRunner(test).run(0, golden.prompt, golden.prompt.size());
      for (size_t i = 0; i < golden.logits.size(); ++i, ++positions) {
        const auto want = log_softmax(golden.logits[i]), got = log_softmax(logits[i]);
        for (size_t v = 0; v < want.size(); ++v) kl += std::exp(want[v]) * (want[v] - got[v]);
      }
    }
    CHECK(kl / positions < 5e-4);
  }
}

TEST_CASE("on the CPU a row's logits have the same bits alone, in a batch and in chunks") {
  for (const fs::path& folder : tiny_models()) {
    CAPTURE(folder.filename().string());
    for (Precision precision : {Precision::kExact, Precision::kHigh, Precision::kFast}) {
      const TestModel test = open_test_model(model_path(folder), cpu(precision));
      const std::vector<GoldenCase> goldens = read_golden(folder);
      const auto solo = [&](const std::vector<int32_t>& prompt, size_t chunk) {
        return ModelRunner(test).run(0, prompt, chunk);
      };
      std::vector<Chunk> batch;
      for (int row = 0; row < 16; ++row)
        batch.push_back({row, goldens[row % goldens.size()].prompt});
      auto batched = ModelRunner(test).step(batch);
      for (const Chunk& chunk : batch) CHECK(batched[chunk.row] == solo(chunk.tokens, 512));
      for (size_t size : {1, 7}) CHECK(solo(batch[3].tokens, size) == solo(batch[3].tokens, 512));
    }
  }
}
