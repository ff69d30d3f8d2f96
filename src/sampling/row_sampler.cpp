#include "sampling/row_sampler.h"

#include <limits>

#include "base/rng.h"
#include "sampling/logprobs.h"

namespace tandem {

RowSampler::RowSampler(const SamplingParams& params, int choice, std::span<const int32_t> prompt)
    : params_(params),
      choice_(static_cast<uint32_t>(choice)),
      counts_(has_penalties(params) ? prompt : std::span<const int32_t>()) {}

TokenInfo RowSampler::next(std::span<const float> logits, int64_t position, int logprobs,
                           std::span<const int32_t> forbidden, Sampler& sampler) {
  if (has_processors(params_) || !forbidden.empty()) {
    processed_.assign(logits.begin(), logits.end());
    apply_processors(params_, counts_, processed_);
    for (int32_t id : forbidden) {
      if (id >= 0 && id < std::ssize(processed_)) {
        processed_[id] = -std::numeric_limits<float>::infinity();
      }
    }
    logits = processed_;
  }
  const double draw = uniform_draw(params_.seed, choice_, static_cast<uint64_t>(position));
  const int32_t id = sampler.choose(logits, params_, draw);
  if (has_penalties(params_)) counts_.add_output(id);
  return logprobs >= 0 ? token_logprobs(logits, id, logprobs) : TokenInfo{.id = id, .top = {}};
}

}  // namespace tandem
