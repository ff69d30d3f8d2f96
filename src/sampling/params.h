// Are the sampling parameters of a request within their ranges?
#pragma once

#include <cstdint>

#include "sched/request.h"

namespace tandem {

// Throws Error(kInvalid) naming the field, its range and what was given.
void check_sampling(const SamplingParams& params, int64_t vocab_size);

}  // namespace tandem
