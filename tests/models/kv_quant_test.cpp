// What quantised keys and values cost the default model: KL and perplexity against
// the same weights with f16 pages, and whether it still knows a prompt's beginning.
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

using Ids = std::vector<int32_t>;

struct Text {
  Ids ids;
  size_t prompt = 0;  // tokens of it; the rest is the reference's answer
};

std::vector<Text> read_texts() {
  const auto path = std::filesystem::path(TANDEM_GOLDENS) / "smollm2-135m" / "golden.json";
  const auto golden = nlohmann::json::parse(std::ifstream(path));
  std::vector<Text> texts;
  for (const auto& item : golden["items"]) {
    Text text{.ids = item["prompt_ids"], .prompt = item["prompt_ids"].size()};
    for (const int32_t id : item["output_ids"]) text.ids.push_back(id);
    texts.push_back(std::move(text));
  }
  return texts;
}

// KL of two distributions, as log-probabilities.
double kl(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

using LogProbs = std::vector<std::vector<double>>;

LogProbs all_log_softmax(const ModelRunner::Logits& logits) {
  LogProbs out;
  for (const auto& row : logits) out.push_back(log_softmax(row));
  return out;
}

size_t top(const std::vector<double>& p) {
  return static_cast<size_t>(std::ranges::max_element(p) - p.begin());
}

struct Cost {
  double kl = 0;          // mean, from f16 pages to these
  double perplexity = 0;  // of the texts, over that with f16 pages
  double agreement = 0;   // of the most likely token
};

// Over every position of the texts.
Cost cost_of(const TestModel& test, const KvFormat& format, const std::vector<Text>& texts,
             const std::vector<LogProbs>& reference) {
  Cost cost;
  double surprise = 0;
  int64_t count = 0;
  for (size_t t = 0; t < texts.size(); ++t) {
    const Ids& ids = texts[t].ids;
    const auto tested = all_log_softmax(ModelRunner(test, format).run(0, ids, ids.size()));
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      cost.kl += kl(reference[t][i], tested[i]);
      cost.agreement += top(reference[t][i]) == top(tested[i]);
      surprise += reference[t][i][ids[i + 1]] - tested[i][ids[i + 1]];
      ++count;
    }
  }
  cost.kl /= static_cast<double>(count);
  cost.agreement /= static_cast<double>(count);
  cost.perplexity = std::exp(surprise / static_cast<double>(count));
  return cost;
}

}  // namespace

TEST_CASE("SmolLM2: each KV scheme costs no more than it is known to") {
  struct Scheme {
    KvFormat format;
    double kl_max, perplexity_max;
  };
  const Scheme schemes[] = {
      {kv_affine(8, 64), 2e-3, 1.005}, {kv_affine(4, 64), 0.3, 1.25}, {kv_affine(4, 32), 0.15, 1.2},
      {kv_turbo(8, 3), 0.1, 1.15},     {kv_turbo(8, 4), 0.03, 1.05},  {kv_turbo(8, 8), 1e-3, 1.005},
  };
  const TestModel test = open_test_model("default", cpu(Precision::kHigh));
  std::vector<Text> texts = read_texts();
  texts.resize(8);
  std::vector<LogProbs> reference;
  for (const Text& text : texts) {
    reference.push_back(all_log_softmax(ModelRunner(test).run(0, text.ids, text.ids.size())));
  }
  for (const Scheme& scheme : schemes) {
    const Cost cost = cost_of(test, scheme.format, texts, reference);
    const std::string name = kv_format_name(scheme.format);
    MESSAGE(name << ": mean KL " << cost.kl << ", perplexity x " << cost.perplexity
                 << ", same top token " << cost.agreement);
    CAPTURE(name);
    CHECK(cost.kl < scheme.kl_max);
    CHECK(cost.perplexity < scheme.perplexity_max);
  }
}

TEST_CASE("SmolLM2 with quantised pages remembers the beginning of a long prompt") {
  const std::vector<Text> texts = read_texts();
  const Ids fact(texts[3].ids.begin(), texts[3].ids.begin() + 48);
  Ids prompt = fact;
  for (size_t t = 4; prompt.size() < 1548; t = t + 1 < texts.size() ? t + 1 : 4) {
    prompt.insert(prompt.end(), texts[t].ids.begin(), texts[t].ids.end());
  }
  prompt.resize(1548);
  const TestModel test = open_test_model("default", cpu(Precision::kHigh));
  // The fact again, after the filler: whoever remembers knows how it goes on.
  const auto logits = [&](const std::optional<KvFormat>& format, int start) {
    ModelRunner runner(test, format, start);
    runner.run(0, prompt, 512, false);
    return runner.step({{0, fact}})[0];
  };
  const auto reference = logits({}, 0);
  const auto known = [&](const ModelRunner::Logits& all) {
    int count = 0;
    for (size_t i = 16; i + 1 < fact.size(); ++i) count += argmax(all[i]) == fact[i + 1];
    return count;
  };
  const auto distance = [&](const ModelRunner::Logits& all) {
    double sum = 0;
    for (size_t i = 0; i < all.size(); ++i)
      sum += kl(log_softmax(reference[i]), log_softmax(all[i]));
    return sum / static_cast<double>(all.size());
  };
  const auto q8 = logits(kv_affine(8, 64), 0);
  MESSAGE("remembered of 31: f16 " << known(reference) << ", 8 bits " << known(q8) << ", KL "
                                   << distance(q8));
  CHECK(known(reference) >= 20);
  CHECK(known(q8) >= known(reference) - 1);
  CHECK(distance(q8) < 2e-3);

  // Beside two other rows, and in other chunks: the same bits.
  ModelRunner batched(test, kv_affine(8, 64));
  for (size_t begin = 0; begin < prompt.size(); begin += 387) {
    const Ids part(prompt.begin() + begin, prompt.begin() + begin + 387);
    batched.step({{1, Ids(texts[5].ids.begin(), texts[5].ids.begin() + 7)}, {0, part}, {2, fact}},
                 false);
  }
  CHECK(batched.step({{2, {fact[0]}}, {0, fact}, {1, {fact[1]}}})[0] == q8);

  const auto later = logits(kv_turbo(8, 3), 512);
  MESSAGE("turbo from 512: " << known(later) << ", KL " << distance(later));
  CHECK(known(later) >= known(reference) - 3);
}

#ifdef TANDEM_MLX
TEST_CASE("SmolLM2 with quantised pages: the MLX backend agrees with the CPU backend") {
  const Ids prompt = {1, 9690, 198, 2683, 359, 253};
  const TestModel a = open_test_model("default", cpu(Precision::kExact));
  const TestModel b = open_test_model("default", mlx(Precision::kExact));
  for (const KvFormat& format : {kv_affine(8, 64), kv_affine(4, 32), kv_turbo(8, 3)}) {
    CAPTURE(kv_format_name(format));
    const auto got = ModelRunner(a, format).run(0, prompt, 4);
    const auto want = ModelRunner(b, format).run(0, prompt, 4);
    double sum = 0;
    for (size_t i = 0; i < prompt.size(); ++i) sum += kl(log_softmax(want[i]), log_softmax(got[i]));
    MESSAGE(kv_format_name(format) << ": KL between the backends " << sum / 6);
    CHECK(sum / 6 < 1e-3);
  }
}
#endif
