#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "sampling/reduce.h"

namespace tandem {

namespace {

constexpr size_t kBlock = 512;
constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

int32_t Sampler::choose(std::span<const float> logits, const SamplingParams& params, double draw) {
  const MaxOf max = max_of(logits);
  if (!max.valid) {
    throw Error(ErrorCode::kInternal,
                "the model gave logits that are no distribution (NaN, +inf, or -inf everywhere)");
  }
  if (params.temperature <= 0) return max.index;
  const float scale = std::min(1.0f / params.temperature, 1e30f);
  const bool top_k = params.top_k > 0 && params.top_k < std::ssize(logits);
  const bool top_p = params.top_p < 1;
  const bool min_p = params.min_p > 0;
  if (!top_k && !top_p && !min_p) return draw_all(logits, max.value, scale, draw);

  const double mass = top_p ? exp_sum(logits, max.value, 1.0f) * params.top_p : 0;
  // Nearly always the cut lies among the few tokens that come near the best one;
  // else all are looked at.
  for (float low : {max.value - 5.0f, max.value - 10.0f, -kInf}) {
    gather(logits, max.value, low);
    Candidate last{.logit = low, .id = std::numeric_limits<int32_t>::max()};
    bool found = low == -kInf;
    if (min_p) {
      const float least = max.value + std::log(params.min_p);
      found |= least >= low;
      last.logit = std::max(last.logit, least);
    }
    if (top_k && std::ssize(candidates_) >= params.top_k) {
      found = true;
      last = std::min(last, cut_top_k(params.top_k));
    }
    if (top_p) {
      double sum = 0;
      for (const Candidate& candidate : candidates_) sum += candidate.weight;
      if (sum >= mass) {
        found = true;
        last = std::min(last, cut_top_p(mass));
      }
    }
    if (found) return draw_kept(max.value, scale, last, draw);
  }
  INVARIANT(false);
  return max.index;
}

void Sampler::gather(std::span<const float> logits, float max, float low) {
  ids_.clear();
  append_at_least(logits, low, ids_);
  logits_.clear();
  for (int32_t id : ids_) logits_.push_back(logits[id]);
  weights_.resize(ids_.size());
  exp_each(logits_, max, 1.0f, weights_);
  candidates_.clear();
  for (size_t i = 0; i < ids_.size(); ++i) {
    candidates_.push_back({logits_[i], ids_[i], weights_[i]});
  }
}

// The k-th most likely candidate.
Sampler::Candidate Sampler::cut_top_k(int64_t k) {
  ranked_ = candidates_;
  const auto kth = ranked_.begin() + (k - 1);
  std::nth_element(ranked_.begin(), kth, ranked_.end());
  return *kth;
}

// The candidate at which the weights, most likely first, reach `mass`.
Sampler::Candidate Sampler::cut_top_p(double mass) {
  ranked_ = candidates_;
  auto first = ranked_.begin(), end = ranked_.end();
  double before = 0;
  // Halve the range that holds it, then walk what is left.
  while (end - first > 32) {
    const auto middle = first + (end - first) / 2;
    std::nth_element(first, middle, end);
    double half = 0;
    for (auto it = first; it != middle; ++it) half += it->weight;
    if (before + half >= mass) {
      end = middle;
    } else {
      before += half;
      first = middle;
    }
  }
  std::sort(first, end);
  for (; first + 1 != end; ++first) {
    before += first->weight;
    if (before >= mass) break;
  }
  return *first;
}

// Draws among the candidates down to `last`, in the order of their ids.
int32_t Sampler::draw_kept(float max, float scale, const Candidate& last, double draw) const {
  const auto weight_of = [&](const Candidate& candidate) {
    return last < candidate ? 0.0f : exp_nonpositive((candidate.logit - max) * scale);
  };
  double sum = 0;
  for (const Candidate& candidate : candidates_) sum += weight_of(candidate);
  const double target = draw * sum;
  double passed = 0;
  int32_t chosen = -1;
  for (const Candidate& candidate : candidates_) {
    const float weight = weight_of(candidate);
    if (weight == 0) continue;
    chosen = candidate.id;
    passed += weight;
    if (passed > target) break;
  }
  INVARIANT(chosen >= 0);
  return chosen;
}

int32_t Sampler::draw_all(std::span<const float> logits, float max, float scale, double draw) {
  weights_.resize(logits.size());
  block_sums_.clear();
  double sum = 0;
  for (size_t i = 0; i < logits.size(); i += kBlock) {
    const size_t n = std::min(kBlock, logits.size() - i);
    block_sums_.push_back(
        exp_each(logits.subspan(i, n), max, scale, std::span(weights_).subspan(i, n)));
    sum += block_sums_.back();
  }
  const double target = draw * sum;
  double passed = 0;
  size_t block = 0;
  while (block + 1 < block_sums_.size() && passed + block_sums_[block] <= target) {
    passed += block_sums_[block++];
  }
  // Rounding may leave the target beyond the block's own weights: the last that
  // can be drawn is then the one.
  int32_t chosen = -1;
  const size_t end = std::min(logits.size(), (block + 1) * kBlock);
  for (size_t i = block * kBlock; i < end; ++i) {
    if (weights_[i] == 0) continue;
    chosen = static_cast<int32_t>(i);
    passed += weights_[i];
    if (passed > target) break;
  }
  return chosen >= 0 ? chosen : max_of(logits).index;
}

}  // namespace tandem
