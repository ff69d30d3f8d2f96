#include "models/real_golden.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tandem {

namespace {

template <typename T>
std::vector<T> read_block(std::ifstream& file, size_t count) {
  std::vector<T> values(count);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  REQUIRE(file.good());
  return values;
}

std::vector<int32_t> read_ids(std::ifstream& file, bool wide, size_t count) {
  if (wide) return read_block<int32_t>(file, count);
  const std::vector<uint16_t> ids = read_block<uint16_t>(file, count);
  return {ids.begin(), ids.end()};
}

// Lower bound of KL(reference || tested) at output position i: all ids outside
// the reference's top are one lump.
double kl_at(const RealItem& item, size_t i, const std::vector<double>& tested) {
  const float* reference = &item.top_logprobs[i * (item.top + 1)];
  double kl = 0, covered = 0;
  for (size_t t = 0; t < item.top; ++t) {
    const double q = tested[item.top_ids[i * item.top + t]];
    kl += std::exp(reference[t]) * (reference[t] - q);
    covered += std::exp(q);
  }
  const double rest = reference[item.top];
  return kl + std::exp(rest) * (rest - std::log(std::max(1 - covered, 1e-12)));
}

ModelRunner::Logits output_logits(const TestModel& test, const RealItem& item) {
  ModelRunner runner(test);
  runner.end_prompt(0, static_cast<int32_t>(item.prompt.size()));
  // All but the prompt's last token: their logits are not wanted here.
  if (item.prompt.size() > 1) {
    runner.run(0, {item.prompt.begin(), item.prompt.end() - 1}, 256, /*outputs=*/false);
  }
  std::vector<int32_t> tokens = {item.prompt.back()};
  tokens.insert(tokens.end(), item.output.begin(), item.output.end() - 1);
  return runner.run(0, tokens, tokens.size());
}

}  // namespace

std::vector<RealItem> read_real_items(const std::string& name) {
  const auto folder = std::filesystem::path(TANDEM_GOLDENS) / name;
  const auto golden = nlohmann::json::parse(std::ifstream(folder / "golden.json"));
  const std::string ids_file = golden["top_ids"];
  std::ifstream ids(folder / ids_file, std::ios::binary);
  std::ifstream logprobs(folder / golden["top_logprobs"].get<std::string>(), std::ios::binary);
  std::vector<RealItem> items;
  for (const auto& in : golden["items"]) {
    RealItem item{.name = in["name"],
                  .prompt = in["prompt_ids"],
                  .output = in["output_ids"],
                  .gaps = in["gaps"],
                  .top = golden["top"]};
    item.top_ids = read_ids(ids, ids_file.ends_with("u32"), item.output.size() * item.top);
    item.top_logprobs = read_block<float>(logprobs, item.output.size() * (item.top + 1));
    items.push_back(std::move(item));
  }
  REQUIRE(items.size() >= 10);
  return items;
}

Fidelity measure_fidelity(const TestModel& test, const std::vector<RealItem>& items,
                          double gap_min) {
  Fidelity f;
  for (const RealItem& item : items) {
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
      for (size_t t = 0; t < item.top; ++t) {
        const double error =
            tested[item.top_ids[i * item.top + t]] - item.top_logprobs[i * (item.top + 1) + t];
        f.worst_logprob = std::max(f.worst_logprob, std::abs(error));
      }
    }
  }
  MESSAGE("mean KL " << f.kl_mean() << ", top-1 agreement " << f.agreement()
                     << ", worst log-probability error " << f.worst_logprob);
  return f;
}

}  // namespace tandem
