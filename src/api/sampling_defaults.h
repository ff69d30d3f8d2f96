// Where a sampling value comes from: request > command line >
// generation_config.json > built in (temperature 0.7, everything else off).
#pragma once

#include <cstdint>
#include <optional>

#include "sched/request.h"

namespace tandem::api {

inline constexpr float kBuiltinTemperature = 0.7f;

// One link of the chain: what it leaves unset, the next one decides.
struct SamplingChoice {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int> max_tokens;

  // Fills what is unset from `next`.
  SamplingChoice over(const SamplingChoice& next) const;
};

}  // namespace tandem::api
