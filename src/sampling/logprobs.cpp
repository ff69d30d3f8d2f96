#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sampling/reduce.h"

namespace tandem {

namespace {

bool more_likely(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
}

// The n largest logits, in order. The heap's front is the least of those kept.
std::vector<TokenLogprob> largest(std::span<const float> logits, size_t n) {
  std::vector<TokenLogprob> heap;
  heap.reserve(n + 1);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (heap.size() == n && logits[i] <= heap.front().logprob) continue;
    heap.push_back({static_cast<int32_t>(i), logits[i]});
    std::push_heap(heap.begin(), heap.end(), more_likely);
    if (heap.size() <= n) continue;
    std::pop_heap(heap.begin(), heap.end(), more_likely);
    heap.pop_back();
  }
  std::sort_heap(heap.begin(), heap.end(), more_likely);
  return heap;
}

}  // namespace

TokenInfo token_logprobs(std::span<const float> logits, int32_t id, int top) {
  const MaxOf max = max_of(logits);
  if (!max.valid || id < 0 || id >= std::ssize(logits)) {
    throw Error(ErrorCode::kInternal, "no log-probability for token " + std::to_string(id) +
                                          ": the model's logits are no distribution over it");
  }
  const double log_sum = std::log(exp_sum(logits, max.value, 1.0f));
  const auto logprob = [&](float logit) {
    return static_cast<float>(double{logit} - double{max.value} - log_sum);
  };
  TokenInfo info{.id = id, .has_logprob = true, .logprob = logprob(logits[id]), .top = {}};
  if (top > 0) {
    info.top = largest(logits, std::min<size_t>(top, logits.size()));
    for (TokenLogprob& entry : info.top) entry.logprob = logprob(entry.logprob);
  }
  return info;
}

}  // namespace tandem
