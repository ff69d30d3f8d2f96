// What changes a row's logits before they are sampled from.
//
// Order: logit bias; repetition penalty (negative logits times it, positive ones
// divided by it) for every token of prompt and output; presence penalty, once
// for every token of the output; frequency penalty, for every time it occurs in
// the output.
// Source: CTRL, arXiv:1909.05858 (repetition); OpenAI API reference (the others).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sched/request.h"

namespace tandem {

// Which tokens a row has seen: its own, never a neighbour's.
class TokenCounts {
 public:
  explicit TokenCounts(std::span<const int32_t> prompt);
  void add_output(int32_t id);

  struct Count {
    int32_t id = 0;
    int32_t in_output = 0;
  };
  std::span<const Count> counts() const { return counts_; }

 private:
  Count& at(int32_t id);

  std::vector<Count> counts_;                   // one a distinct token
  std::unordered_map<int32_t, size_t> places_;  // id -> index in counts_
};

bool has_penalties(const SamplingParams& params);
bool has_processors(const SamplingParams& params);

// Ids outside the logits are skipped (a prompt may hold padded vocabulary).
void apply_processors(const SamplingParams& params, const TokenCounts& counts,
                      std::span<float> logits);

}  // namespace tandem
