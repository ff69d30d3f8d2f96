#include "api/sampling_defaults.h"

namespace tandem::api {

SamplingChoice SamplingChoice::over(const SamplingChoice& next) const {
  auto first = [](const auto& a, const auto& b) { return a ? a : b; };
  return {.temperature = first(temperature, next.temperature),
          .top_p = first(top_p, next.top_p),
          .top_k = first(top_k, next.top_k),
          .min_p = first(min_p, next.min_p),
          .repetition_penalty = first(repetition_penalty, next.repetition_penalty),
          .max_tokens = first(max_tokens, next.max_tokens)};
}

}  // namespace tandem::api
