// One row's way from logits to its next token: processors, choice,
// log-probabilities. Depends on nothing but the row's own request and tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sampling/processors.h"
#include "sampling/sampler.h"
#include "sched/request.h"

namespace tandem {

// What may be chosen of the vocabulary.
struct TokenLimits {
  std::span<const int32_t> forbidden;  // never these
  std::span<const uint32_t> allowed;   // bit i % 32 of word i / 32: token i; empty = all
  std::optional<int32_t> forced;       // this one whatever the logits

  // False if no token is left.
  bool any_left() const;
};

class RowSampler {
 public:
  RowSampler(const SamplingParams& params, int choice, std::span<const int32_t> prompt);

  // The token for absolute position `position`, of those that `limits` leave;
  // `logprobs` as in Request. Throws Error(kInternal) when the logits are no
  // distribution. Mutates the history: the token counts as output from here on.
  TokenInfo next(std::span<const float> logits, int64_t position, int logprobs,
                 const TokenLimits& limits, Sampler& sampler);

 private:
  void mask(const TokenLimits& limits);

  SamplingParams params_;
  uint32_t choice_;
  TokenCounts counts_;
  std::vector<float> processed_;  // [V], only when something changes the logits
};

}  // namespace tandem
