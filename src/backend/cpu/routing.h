// Which experts a token goes to, and with what weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace tandem::cpu {

struct ChosenExpert {
  int32_t expert = 0;
  float weight = 0;
};

// The choice of one token from its router logits [E] and the bias [E] (or none) that
// counts for the choice only: options.top_k experts, ascending. Of equals the lower
// id is chosen. NaN counts as the lowest score.
std::vector<ChosenExpert> choose_experts(std::span<const float> logits, std::span<const float> bias,
                                         const MoeOptions& options);

}  // namespace tandem::cpu
