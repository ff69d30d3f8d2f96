#include "sampling/processors.h"

namespace tandem {

TokenCounts::TokenCounts(std::span<const int32_t> prompt) {
  for (int32_t id : prompt) at(id);
}

void TokenCounts::add_output(int32_t id) { ++at(id).in_output; }

TokenCounts::Count& TokenCounts::at(int32_t id) {
  const auto [place, added] = places_.try_emplace(id, counts_.size());
  if (added) counts_.push_back({.id = id});
  return counts_[place->second];
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

bool has_processors(const SamplingParams& params) {
  return !params.logit_bias.empty() || has_penalties(params);
}

void apply_processors(const SamplingParams& params, const TokenCounts& counts,
                      std::span<float> logits) {
  for (const auto& [id, bias] : params.logit_bias) logits[id] += bias;
  if (!has_penalties(params)) return;
  for (const TokenCounts::Count& count : counts.counts()) {
    if (count.id < 0 || count.id >= std::ssize(logits)) continue;
    float& logit = logits[count.id];
    logit = logit < 0 ? logit * params.repetition_penalty : logit / params.repetition_penalty;
    if (count.in_output > 0) {
      logit -= params.presence_penalty;
      logit -= params.frequency_penalty * static_cast<float>(count.in_output);
    }
  }
}

}  // namespace tandem
