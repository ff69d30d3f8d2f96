#include "engine/step_cost.h"

#include <algorithm>

namespace tandem {

namespace {

constexpr double kWeightOfNewest = 0.2;
// What turns out dearer than foreseen counts at once, what is cheaper only in time.
constexpr double kWeightOfDearer = 0.5;
constexpr double kWeightOfCheaper = 0.1;
constexpr double kTokenMsMin = 1e-6;

void average_in(double& mean, double value, double weight = kWeightOfNewest) {
  mean = mean == 0 ? value : mean + weight * (value - mean);
}

}  // namespace

void StepCost::observe(int32_t decoding, int32_t chunk_tokens, double ms) {
  if (chunk_tokens == 0) {
    if (decoding == 0) return;
    average_in(decode_ms_, ms);
    average_in(row_ms_, ms / decoding);
  } else if (decoding == 0) {
    average_in(chunk_ms_, std::max(kTokenMsMin, ms / chunk_tokens));
  } else if (decode_ms_ > 0) {
    const double token_ms = std::max(kTokenMsMin, (ms - decode_ms_) / chunk_tokens);
    average_in(mixed_ms_, token_ms, token_ms > mixed_ms_ ? kWeightOfDearer : kWeightOfCheaper);
  }
}

// Long chunks make a token cheap; beside decoding rows it may cost as much as one of
// those, until it is known better.
double StepCost::token_ms() const {
  return mixed_ms_ > 0 ? mixed_ms_ : std::max(chunk_ms_, row_ms_);
}

int32_t StepCost::chunk_tokens(int32_t most) const {
  if (decode_ms_ == 0) return std::min(most, kTokensUnknown);
  const double tokens = (kSlowdownAim - 1) * decode_ms_ / token_ms();
  return static_cast<int32_t>(
      std::clamp<double>(tokens, std::min(most, kTokensMin), std::max(most, 1)));
}

}  // namespace tandem
