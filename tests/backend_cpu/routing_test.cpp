#include "backend/cpu/routing.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using cpu::choose_experts;

namespace {

std::vector<int32_t> ids(const std::vector<cpu::ChosenExpert>& chosen) {
  std::vector<int32_t> out;
  for (const auto& expert : chosen) out.push_back(expert.expert);
  return out;
}

using Ids = std::vector<int32_t>;

}  // namespace

TEST_CASE("the best experts are chosen, in ascending id, their softmax weights summing to 1") {
  const std::vector<float> logits = {1, 3, 0, 2};
  const auto chosen = choose_experts(logits, {}, {.top_k = 2});
  CHECK(ids(chosen) == Ids{1, 3});
  CHECK(chosen[0].weight == doctest::Approx(1 / (1 + std::exp(-1.0))));
  CHECK(chosen[0].weight + chosen[1].weight == doctest::Approx(1));
}

TEST_CASE("of equal scores the lower id is chosen, and NaN last") {
  const std::vector<float> equal = {1, 1, 1, 1};
  CHECK(ids(choose_experts(equal, {}, {.top_k = 2})) == Ids{0, 1});
  const std::vector<float> broken = {NAN, 0.5f, NAN, 0.1f};
  CHECK(ids(choose_experts(broken, {}, {.top_k = 2, .sigmoid_scores = true})) == Ids{1, 3});
}

TEST_CASE("the bias counts for the choice and not for the weight") {
  const std::vector<float> logits = {2, 0, 0, 0}, bias = {-5, 0, 0.5f, 0};
  const auto chosen =
      choose_experts(logits, bias, {.top_k = 1, .sigmoid_scores = true, .normalize_scores = false});
  CHECK(ids(chosen) == Ids{2});
  CHECK(chosen[0].weight == doctest::Approx(0.5));
}

TEST_CASE("groups are kept by the sum of their two best, or by the best alone") {
  const std::vector<float> logits = {5, -9, 3, 3};
  MoeOptions options{.top_k = 1, .sigmoid_scores = true, .groups = 2, .groups_kept = 1};
  CHECK(ids(choose_experts(logits, {}, options)) == Ids{2});
  options.group_by_best = true;
  CHECK(ids(choose_experts(logits, {}, options)) == Ids{0});
}

TEST_CASE("weights are scaled after they are normalised") {
  const std::vector<float> logits = {0, 0};
  const auto chosen = choose_experts(logits, {}, {.top_k = 2, .score_scale = 3});
  CHECK(chosen[0].weight == doctest::Approx(1.5));
}
