#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "sampling/reduce.h"

namespace tandem {

namespace {

constexpr size_t kBlock = 512;

// Bins of equal width below the largest logit; the last takes all the rest.
// Monotone in x, so a bin holds a run of the tokens ordered by logit.
int bin_of(float x, float max, int bins) {
  const float below = (max - x) * 8.0f;
  return below < static_cast<float>(bins - 1) ? static_cast<int>(below) : bins - 1;
}

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

  // The least likely token that every cut keeps.
  Candidate last{.logit = -std::numeric_limits<float>::infinity(),
                 .id = std::numeric_limits<int32_t>::max()};
  if (min_p) last.logit = max.value + std::log(params.min_p);
  if (top_k || top_p) {
    weights_.resize(logits.size());
    const double sum = exp_each(logits, max.value, 1.0f, weights_);
    fill_bins(logits, max.value);
    if (top_p) last = std::min(last, cut_top_p(logits, max.value, sum * params.top_p));
    if (top_k) last = std::min(last, cut_top_k(logits, max.value, params.top_k));
  }
  return draw_kept(logits, max.value, scale, last, draw);
}

void Sampler::fill_bins(std::span<const float> logits, float max) {
  std::fill(counts_, counts_ + kBins, 0);
  std::fill(masses_, masses_ + kBins, 0.0);
  for (size_t i = 0; i < logits.size(); ++i) {
    const int bin = bin_of(logits[i], max, kBins);
    ++counts_[bin];
    masses_[bin] += weights_[i];
  }
}

void Sampler::gather_bin(std::span<const float> logits, float max, int bin) {
  bin_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (bin_of(logits[i], max, kBins) == bin) {
      bin_.push_back({logits[i], static_cast<int32_t>(i), weights_[i]});
    }
  }
}

Sampler::Candidate Sampler::cut_top_k(std::span<const float> logits, float max, int64_t k) {
  int bin = 0;
  int64_t before = 0;
  for (; before + counts_[bin] < k; ++bin) before += counts_[bin];
  gather_bin(logits, max, bin);
  const auto kth = bin_.begin() + (k - before - 1);
  std::nth_element(bin_.begin(), kth, bin_.end());
  return *kth;
}

Sampler::Candidate Sampler::cut_top_p(std::span<const float> logits, float max, double mass) {
  int bin = 0;
  double before = 0;
  for (; bin < kBins - 1 && before + masses_[bin] < mass; ++bin) before += masses_[bin];
  gather_bin(logits, max, bin);
  // The bins' masses may round below `mass`: then all tokens are kept.
  if (bin_.empty()) {
    return {-std::numeric_limits<float>::infinity(), std::numeric_limits<int32_t>::max(), 0};
  }
  // Halve the range that holds the last kept token, then walk what is left.
  auto first = bin_.begin(), end = bin_.end();
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

int32_t Sampler::draw_kept(std::span<const float> logits, float max, float scale,
                           const Candidate& last, double draw) {
  kept_.clear();
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < last.logit) continue;
    const auto id = static_cast<int32_t>(i);
    if (logits[i] == last.logit && id > last.id) continue;
    const float weight = exp_nonpositive((logits[i] - max) * scale);
    kept_.push_back({logits[i], id, weight});
    sum += weight;
  }
  const double target = draw * sum;
  double passed = 0;
  int32_t chosen = kept_.front().id;
  for (const Candidate& candidate : kept_) {
    if (candidate.weight == 0) continue;
    chosen = candidate.id;
    passed += candidate.weight;
    if (passed > target) break;
  }
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
