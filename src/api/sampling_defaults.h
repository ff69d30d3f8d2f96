// Where a sampling value comes from: request > command line >
// generation_config.json > built in (temperature 0.7, everything else off).
#pragma once

#include <cstdint>
#include <optional>

#include "api/json_text.h"
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

// Of generation_config.json; null gives nothing. An explicit "do_sample": false
// means greedy. Values out of range are left out: the file is not the caller's.
SamplingChoice from_generation_config(const Json& config);

}  // namespace tandem::api
