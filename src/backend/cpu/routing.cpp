#include "backend/cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tandem::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<float> scores_of(std::span<const float> logits, bool sigmoid) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (sigmoid) {
    for (float& score : scores) score = 1 / (1 + std::exp(-score));
    return scores;
  }
  const float top = *std::ranges::max_element(scores);
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - top);
  for (float& score : scores) score /= sum;
  return scores;
}

// Indices of the `count` largest, ascending.
std::vector<int32_t> largest(std::span<const float> values, int count) {
  std::vector<int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::partial_sort(ids, ids.begin() + count, [&](int32_t a, int32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  ids.resize(count);
  std::ranges::sort(ids);
  return ids;
}

float group_score(std::span<const float> scores, bool by_best) {
  float first = kNever, second = kNever;
  for (const float score : scores) {
    second = std::max(second, std::min(first, score));
    first = std::max(first, score);
  }
  return by_best || scores.size() == 1 ? first : first + second;
}

void drop_groups(std::span<float> scores, const MoeOptions& options) {
  const size_t size = scores.size() / options.groups;
  std::vector<float> groups;
  for (int g = 0; g < options.groups; g++) {
    groups.push_back(group_score(scores.subspan(g * size, size), options.group_by_best));
  }
  const std::vector<int32_t> kept = largest(groups, options.groups_kept);
  for (int g = 0; g < options.groups; g++) {
    if (std::ranges::binary_search(kept, g)) continue;
    std::ranges::fill(scores.subspan(g * size, size), kNever);
  }
}

}  // namespace

std::vector<ChosenExpert> choose_experts(std::span<const float> logits, std::span<const float> bias,
                                         const MoeOptions& options) {
  const std::vector<float> scores = scores_of(logits, options.sigmoid_scores);
  std::vector<float> choice = scores;
  for (size_t e = 0; e < choice.size(); e++) {
    if (!bias.empty()) choice[e] += bias[e];
    if (std::isnan(choice[e])) choice[e] = kNever;
  }
  if (options.groups > 1) drop_groups(choice, options);
  std::vector<ChosenExpert> chosen;
  float sum = 0;
  for (const int32_t e : largest(choice, options.top_k)) {
    chosen.push_back({e, scores[e]});
    sum += scores[e];
  }
  for (ChosenExpert& expert : chosen) {
    if (options.normalize_scores) expert.weight /= sum + 1e-20f;
    expert.weight *= options.score_scale;
  }
  return chosen;
}

}  // namespace tandem::cpu
