// Log-probabilities of tokens: log-softmax of the logits given, before any cut
// and any temperature.
#pragma once

#include <cstdint>
#include <span>

#include "sched/request.h"

namespace tandem {

// The token with its log-probability and the `top` most likely ones (ties by
// ascending id; at most the whole vocabulary). Throws Error(kInternal) when the
// logits are no distribution.
TokenInfo token_logprobs(std::span<const float> logits, int32_t id, int top);

}  // namespace tandem
