#include "sampling/sampler.h"

#include <doctest/doctest.h>

#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "oracle.h"
#include "sampling/params.h"
#include "sampling/reduce.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingParams at(float temperature, float top_p = 1, int top_k = 0, float min_p = 0) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_p = top_p;
  params.top_k = top_k;
  params.min_p = min_p;
  return params;
}

// Pearson's statistic of `draws` draws against the oracle, over its degrees of
// freedom, tokens of small expectation pooled. Near 1 when both agree.
double chi_square(const std::vector<float>& logits, const SamplingParams& params, int draws) {
  const std::vector<double> expected = distribution(logits, params);
  std::vector<int> seen(logits.size());
  Sampler sampler;
  for (int i = 0; i < draws; ++i) {
    ++seen[sampler.choose(logits, params, uniform_draw(7, 0, i))];
  }
  double statistic = 0, pooled = 0, pooled_seen = 0;
  int freedom = -1;
  const auto add = [&](double want, double got) {
    statistic += (got - want) * (got - want) / want;
    ++freedom;
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    if (expected[i] == 0) REQUIRE(seen[i] == 0);
    if (expected[i] * draws >= 10) {
      add(expected[i] * draws, seen[i]);
    } else {
      pooled += expected[i] * draws;
      pooled_seen += seen[i];
    }
  }
  if (pooled >= 10) add(pooled, pooled_seen);
  return freedom > 0 ? statistic / freedom : 0;
}

int32_t greedy(const std::vector<float>& logits) { return Sampler().choose(logits, at(0), 0.5); }

}  // namespace

TEST_CASE("temperature 0 takes the largest logit, and the lowest id among equals") {
  CHECK(greedy({1, 3, 2, 3}) == 1);
  std::vector<float> many(1000, 0.0f);
  CHECK(greedy(many) == 0);
  many[999] = many[517] = 4;
  CHECK(greedy(many) == 517);
  many[3] = -kInf;
  CHECK(greedy(many) == 517);
}

TEST_CASE("logits that are no distribution are an error wherever the bad value lies") {
  for (size_t place : {0, 15, 16, 998, 999}) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
      std::vector<float> logits(1000, 1.0f);
      logits[place] = bad;
      CHECK_THROWS_AS(greedy(logits), Error);
      CHECK_THROWS_AS(Sampler().choose(logits, at(1), 0.5), Error);
    }
  }
  CHECK_THROWS_AS(greedy(std::vector<float>(100, -kInf)), Error);
}

TEST_CASE("a token of logit -inf is never drawn") {
  std::vector<float> logits(40, -kInf);
  logits[30] = -5;
  logits[33] = -5;
  Sampler sampler;
  for (int i = 0; i < 200; ++i) {
    for (const auto& params : {at(1), at(2, 0.9f), at(1, 1, 20), at(1, 1, 0, 0.5f)}) {
      const int32_t id = sampler.choose(logits, params, uniform_draw(1, 0, i));
      CHECK((id == 30 || id == 33));
    }
  }
}

TEST_CASE("the ends of the unit interval draw tokens that have a probability") {
  std::vector<float> logits = random_logits(3000, 8, 1);
  logits.front() = logits.back() = -kInf;
  Sampler sampler;
  for (const auto& params : {at(1), at(0.01f), at(1e-9f), at(1, 0.5f), at(1, 1, 7)}) {
    for (double draw : {0.0, 1 - 0x1p-53}) {
      const int32_t id = sampler.choose(logits, params, draw);
      CHECK(distribution(logits, params)[id] > 0);
    }
  }
}

TEST_CASE("draws follow the distribution that the parameters describe") {
  struct Case {
    int size;
    float spread;
    SamplingParams params;
  };
  for (const Case& c : std::vector<Case>{{50, 2, at(1)},
                                         {50, 2, at(0.7f)},
                                         {600, 3, at(1.5f)},
                                         {600, 3, at(1, 0.9f)},
                                         {600, 3, at(1, 1, 40)},
                                         {600, 3, at(1, 1, 0, 0.05f)},
                                         {600, 3, at(0.8f, 0.95f, 20, 0.02f)},
                                         {600, 0.01f, at(1, 0.1f)},
                                         {60, 4, at(2, 0.5f, 5, 0.01f)}}) {
    CAPTURE(c.size);
    CAPTURE(c.params.temperature);
    CAPTURE(c.params.top_p);
    CAPTURE(c.params.top_k);
    CAPTURE(c.params.min_p);
    const double ratio = chi_square(random_logits(c.size, c.spread, 3), c.params, 10000);
    CHECK(ratio < 2.2);
  }
}

TEST_CASE("the wrong distribution is told from the right one") {
  const auto logits = random_logits(50, 2, 3);
  const auto wrong = distribution(logits, at(0.9f));
  std::vector<int> seen(50);
  Sampler sampler;
  for (int i = 0; i < 40000; ++i) ++seen[sampler.choose(logits, at(1), uniform_draw(7, 0, i))];
  double statistic = 0;
  for (int i = 0; i < 50; ++i) {
    const double want = wrong[i] * 40000;
    statistic += (seen[i] - want) * (seen[i] - want) / want;
  }
  CHECK(statistic / 49 > 2.2);
}

TEST_CASE("top_k keeps exactly k tokens, the lower ids among equals") {
  std::vector<float> logits(500, 0.0f);
  logits[400] = 1;
  Sampler sampler;
  std::vector<bool> seen(500);
  for (int i = 0; i < 2000; ++i) seen[sampler.choose(logits, at(1, 1, 4), i / 2000.0)] = true;
  CHECK(std::count(seen.begin(), seen.end(), true) == 4);
  for (int id : {0, 1, 2, 400}) CHECK(seen[id]);
}

TEST_CASE("top_p keeps the token that crosses the mass, and always at least one") {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  Sampler sampler;
  CHECK(sampler.choose(logits, at(1, 0.4f), 0.999) == 0);
  CHECK(sampler.choose(logits, at(1, 0.6f), 0.999) == 1);
  CHECK(sampler.choose(logits, at(1, 0.9f), 0.999) == 2);
  CHECK(sampler.choose(logits, at(1, 1e-6f), 0.999) == 0);
}

TEST_CASE("cuts are made before temperature, so that heat does not widen them") {
  const std::vector<float> logits = {std::log(0.7f), std::log(0.2f), std::log(0.1f)};
  Sampler sampler;
  for (int i = 0; i < 100; ++i) CHECK(sampler.choose(logits, at(100, 0.6f), i / 100.0) == 0);
}

TEST_CASE("the own exp is within two units in the last place, and 0 far below") {
  for (float x = 0; x > -86; x -= 0.00731f) {
    const double want = std::exp(double{x});
    REQUIRE(std::abs(exp_nonpositive(x) - want) <= 2.5e-7 * want);
  }
  CHECK(exp_nonpositive(0) == 1);
  CHECK(exp_nonpositive(-88) == 0);
  CHECK(exp_nonpositive(-kInf) == 0);
}

TEST_CASE("sums of exponentials do not depend on the length being a multiple of the lanes") {
  for (int size : {1, 15, 16, 17, 511, 513, 5000}) {
    const auto logits = random_logits(size, 3, 9);
    const MaxOf max = max_of(logits);
    double want = 0;
    for (float x : logits) want += std::exp(double{x} - max.value);
    CHECK(exp_sum(logits, max.value, 1) == doctest::Approx(want).epsilon(1e-6));
  }
}

TEST_CASE("a parameter out of its range is refused by name") {
  const auto param_of = [](const SamplingParams& params) -> std::string {
    try {
      check_sampling(params, 10);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInvalid);
      return error.param();
    }
    return "";
  };
  CHECK(param_of(at(1, 1)) == "");
  CHECK(param_of(at(-0.1f)) == "temperature");
  CHECK(param_of(at(kInf)) == "temperature");
  CHECK(param_of(at(std::numeric_limits<float>::quiet_NaN())) == "temperature");
  CHECK(param_of(at(1, 0)) == "top_p");
  CHECK(param_of(at(1, 1.1f)) == "top_p");
  CHECK(param_of(at(1, 1, -1)) == "top_k");
  CHECK(param_of(at(1, 1, 0, 1.5f)) == "min_p");
  SamplingParams params;
  params.repetition_penalty = 0;
  CHECK(param_of(params) == "repetition_penalty");
  params = {};
  params.logit_bias = {{10, 1.0f}};
  CHECK(param_of(params) == "logit_bias");
}
