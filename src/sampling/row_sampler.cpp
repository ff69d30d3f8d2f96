#include "sampling/row_sampler.h"

#include <algorithm>
#include <limits>

#include "base/rng.h"
#include "sampling/logprobs.h"

namespace tandem {

RowSampler::RowSampler(const SamplingParams& params, int choice, std::span<const int32_t> prompt)
    : params_(params),
      choice_(static_cast<uint32_t>(choice)),
      counts_(has_penalties(params) ? prompt : std::span<const int32_t>()) {}

bool TokenLimits::any_left() const {
  if (forced || allowed.empty()) return true;
  for (size_t word = 0; word < allowed.size(); ++word) {
    uint32_t bits = allowed[word];
    for (const int32_t id : forbidden)
      if (id >= 0 && static_cast<size_t>(id) / 32 == word) bits &= ~(1u << (id % 32));
    if (bits != 0) return true;
  }
  return false;
}

void RowSampler::mask(const TokenLimits& limits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto count = static_cast<int64_t>(processed_.size());
  for (const int32_t id : limits.forbidden)
    if (id >= 0 && id < count) processed_[id] = kNever;
  if (limits.allowed.empty()) return;
  // The model may have more rows than the vocabulary has tokens.
  for (int64_t begin = 0; begin < count; begin += 32) {
    const auto word = static_cast<size_t>(begin / 32);
    const uint32_t bits = word < limits.allowed.size() ? limits.allowed[word] : 0;
    if (bits == ~uint32_t{0}) continue;
    const int64_t end = std::min(begin + 32, count);
    for (int64_t id = begin; id < end; ++id)
      if ((bits >> (id - begin) & 1) == 0) processed_[id] = kNever;
  }
}

TokenInfo RowSampler::next(std::span<const float> logits, int64_t position, int logprobs,
                           const TokenLimits& limits, Sampler& sampler) {
  if (has_processors(params_) || !limits.forbidden.empty() || !limits.allowed.empty()) {
    processed_.assign(logits.begin(), logits.end());
    apply_processors(params_, counts_, processed_);
    mask(limits);
    logits = processed_;
  }
  if (limits.forced) {
    if (has_penalties(params_)) counts_.add_output(*limits.forced);
    return logprobs >= 0 ? token_logprobs(logits, *limits.forced, logprobs)
                         : TokenInfo{.id = *limits.forced, .top = {}};
  }
  const double draw = uniform_draw(params_.seed, choice_, static_cast<uint64_t>(position));
  const int32_t id = sampler.choose(logits, params_, draw);
  if (has_penalties(params_)) counts_.add_output(id);
  return logprobs >= 0 ? token_logprobs(logits, id, logprobs) : TokenInfo{.id = id, .top = {}};
}

}  // namespace tandem
