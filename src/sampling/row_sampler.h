// One row's way from logits to its next token: processors, choice,
// log-probabilities. Depends on nothing but the row's own request and tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/processors.h"
#include "sampling/sampler.h"
#include "sched/request.h"

namespace tandem {

class RowSampler {
 public:
  RowSampler(const SamplingParams& params, int choice, std::span<const int32_t> prompt);

  // The token for absolute position `position`. `forbidden` ids can't be chosen;
  // `logprobs` as in Request. Throws Error(kInternal) when the logits are no
  // distribution. Mutates the history: the token counts as output from here on.
  TokenInfo next(std::span<const float> logits, int64_t position, int logprobs,
                 std::span<const int32_t> forbidden, Sampler& sampler);

 private:
  SamplingParams params_;
  uint32_t choice_;
  TokenCounts counts_;
  std::vector<float> processed_;  // [V], only when something changes the logits
};

}  // namespace tandem
