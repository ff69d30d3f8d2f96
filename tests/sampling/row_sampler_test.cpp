#include "sampling/row_sampler.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "oracle.h"
#include "sampling/logprobs.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

using Ids = std::vector<int32_t>;

std::vector<float> processed(const SamplingParams& params, const Ids& prompt, const Ids& output,
                             std::vector<float> logits) {
  TokenCounts counts(prompt);
  for (int32_t id : output) counts.add_output(id);
  apply_processors(params, counts, logits);
  return logits;
}

// What a row draws from the same logits, token after token.
Ids drawn(const SamplingParams& params, int choice, int n) {
  const auto logits = random_logits(300, 2, 5);
  RowSampler row(params, choice, Ids{1, 2, 3});
  Sampler sampler;
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back(row.next(logits, 3 + i, -1, {}, sampler).id);
  return ids;
}

}  // namespace

TEST_CASE("repetition penalty counts prompt and output, and pushes down from either sign") {
  SamplingParams params;
  params.repetition_penalty = 2;
  CHECK(processed(params, {0, 1}, {2}, {4, -4, 4, 4}) == std::vector<float>{2, -8, 2, 4});
}

TEST_CASE("presence and frequency penalties count the output only") {
  SamplingParams params;
  params.presence_penalty = 1;
  CHECK(processed(params, {0}, {1, 2, 2}, {0, 0, 0, 0}) == std::vector<float>{0, -1, -1, 0});
  params.presence_penalty = 0;
  params.frequency_penalty = 1;
  CHECK(processed(params, {0}, {1, 2, 2}, {0, 0, 0, 0}) == std::vector<float>{0, -1, -2, 0});
}

TEST_CASE("bias comes before the repetition penalty, presence and frequency after it") {
  SamplingParams params;
  params.logit_bias = {{0, 4.0f}};
  params.repetition_penalty = 2;
  params.presence_penalty = 1;
  params.frequency_penalty = 0.5f;
  CHECK(processed(params, {}, {0, 0}, {2, 0})[0] == (2 + 4) / 2.0f - 1 - 0.5f * 2);
}

TEST_CASE("a seed gives the same tokens again, another seed or choice others") {
  SamplingParams params;
  params.temperature = 1;
  params.seed = 11;
  const Ids first = drawn(params, 0, 50);
  CHECK(drawn(params, 0, 50) == first);
  CHECK(drawn(params, 1, 50) != first);
  params.seed = 12;
  CHECK(drawn(params, 0, 50) != first);
}

TEST_CASE("a row draws the same whatever other rows draw from the same sampler between") {
  SamplingParams params;
  params.temperature = 1;
  params.top_p = 0.9f;
  params.frequency_penalty = 1.05f;
  params.repetition_penalty = 1.1f;
  const Ids alone = drawn(params, 0, 50);
  const auto logits = random_logits(300, 2, 5);
  RowSampler row(params, 0, Ids{1, 2, 3}),
      other(SamplingParams{.temperature = 2, .seed = 9, .logit_bias = {}}, 3, Ids{7});
  Sampler sampler;
  Ids together;
  for (int i = 0; i < 50; ++i) {
    other.next(random_logits(500, 4, i), i, 5, {}, sampler);
    together.push_back(row.next(logits, 3 + i, 2, {}, sampler).id);
  }
  CHECK(together == alone);
}

TEST_CASE("a forbidden id is never chosen") {
  RowSampler row({}, 0, Ids{1});
  Sampler sampler;
  const std::vector<float> logits = {1, 5, 3};
  const Ids one = {1}, all = {0, 1, 2};
  CHECK(row.next(logits, 1, -1, {.forbidden = one}, sampler).id == 2);
  CHECK_THROWS_AS(row.next(logits, 1, -1, {.forbidden = all}, sampler), Error);
}

TEST_CASE("only allowed ids are chosen, and none beyond the bits") {
  RowSampler row({}, 0, Ids{1});
  Sampler sampler;
  std::vector<float> logits(70, 1.0f);
  logits[69] = 9;
  logits[40] = 5;
  const std::vector<uint32_t> bits = {1u << 3, 1u << 2};  // ids 3 and 34
  CHECK(row.next(logits, 1, -1, {.allowed = bits}, sampler).id == 3);
  const std::vector<int32_t> forbidden = {3};
  CHECK(row.next(logits, 1, -1, {.forbidden = forbidden, .allowed = bits}, sampler).id == 34);
}

TEST_CASE("limits that contradict each other leave no token") {
  const std::vector<uint32_t> bits = {1u << 3, 0};
  const std::vector<int32_t> forbidden = {3};
  CHECK(TokenLimits{.allowed = bits}.any_left());
  CHECK_FALSE(TokenLimits{.forbidden = forbidden, .allowed = bits}.any_left());
}

TEST_CASE("a forced id is chosen whatever the logits") {
  RowSampler row({}, 0, Ids{1});
  Sampler sampler;
  CHECK(row.next(std::vector<float>{1, 5, 3}, 1, -1, {.forced = 0}, sampler).id == 0);
}

TEST_CASE("log-probabilities are those of the softmax in double precision, most likely first") {
  const auto logits = random_logits(5000, 5, 2);
  const auto p = softmax(logits, 1);
  const TokenInfo info = token_logprobs(logits, 4321, 8);
  CHECK(info.has_logprob);
  CHECK(std::abs(info.logprob - std::log(p[4321])) < 1e-5);
  REQUIRE(info.top.size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(std::abs(info.top[i].logprob - std::log(p[info.top[i].id])) < 1e-5);
    if (i > 0) CHECK(info.top[i - 1].logprob >= info.top[i].logprob);
  }
  CHECK(info.top[0].id == std::max_element(p.begin(), p.end()) - p.begin());
}

TEST_CASE("equal log-probabilities are listed by ascending id, at most the whole vocabulary") {
  const TokenInfo info = token_logprobs(std::vector<float>{1, 2, 2, 0, 2}, 0, 20);
  Ids ids;
  for (const TokenLogprob& entry : info.top) ids.push_back(entry.id);
  CHECK(ids == Ids{1, 2, 4, 0, 3});
}

TEST_CASE("log-probabilities are those after the processors and before temperature and cuts") {
  SamplingParams params;
  params.temperature = 0.1f;
  params.top_k = 1;
  params.logit_bias = {{0, 3.0f}};
  RowSampler row(params, 0, Ids{1});
  Sampler sampler;
  const TokenInfo info = row.next(std::vector<float>{0, 1, 2}, 1, 3, {}, sampler);
  const auto p = softmax({3, 1, 2}, 1);
  CHECK(info.id == 0);
  CHECK(std::abs(info.logprob - std::log(p[0])) < 1e-6);
  CHECK(info.top.size() == 3);
}
