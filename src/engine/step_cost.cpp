#include "engine/step_cost.h"

#include <algorithm>

namespace tandem {

namespace {

constexpr double kWeightOfNewest = 0.2;
constexpr double kTokenMsMin = 1e-6;

void average_in(double& mean, double value) {
  mean = mean == 0 ? value : mean + kWeightOfNewest * (value - mean);
}

}  // namespace

void StepCost::observe(int32_t decoding, int32_t chunk_tokens, double ms) {
  if (chunk_tokens == 0) {
    if (decoding > 0) average_in(decode_ms_, ms);
    return;
  }
  if (decoding == 0) {
    // A bound only: where the weights are read for decoding rows anyway, tokens cost less.
    if (!mixed_seen_) average_in(token_ms_, std::max(kTokenMsMin, ms / chunk_tokens));
    return;
  }
  if (decode_ms_ == 0) return;
  if (!mixed_seen_) token_ms_ = 0;
  mixed_seen_ = true;
  average_in(token_ms_, std::max(kTokenMsMin, (ms - decode_ms_) / chunk_tokens));
}

int32_t StepCost::chunk_tokens(int32_t most) const {
  if (decode_ms_ == 0 || token_ms_ == 0) return std::min(most, kTokensUnknown);
  const double tokens = (kSlowdownMax - 1) * decode_ms_ / token_ms_;
  return static_cast<int32_t>(
      std::clamp<double>(tokens, std::min(most, kTokensMin), std::max(most, 1)));
}

}  // namespace tandem
