#include "sampling/params.h"

#include <cmath>
#include <string>

#include "base/error.h"

namespace tandem {

namespace {

void require(bool good, const char* field, const char* range, float value) {
  if (good && std::isfinite(value)) return;
  throw Error(ErrorCode::kInvalid,
              std::string(field) + " must be " + range + ", got " + std::to_string(value), field);
}

}  // namespace

void check_sampling(const SamplingParams& params, int64_t vocab_size) {
  const SamplingParams& p = params;
  require(p.temperature >= 0, "temperature", "at least 0", p.temperature);
  require(p.top_p > 0 && p.top_p <= 1, "top_p", "above 0 and at most 1", p.top_p);
  require(p.top_k >= 0, "top_k", "at least 0", static_cast<float>(p.top_k));
  require(p.min_p >= 0 && p.min_p <= 1, "min_p", "between 0 and 1", p.min_p);
  require(p.repetition_penalty > 0, "repetition_penalty", "above 0", p.repetition_penalty);
  require(true, "presence_penalty", "a finite number", p.presence_penalty);
  require(true, "frequency_penalty", "a finite number", p.frequency_penalty);
  for (const auto& [id, bias] : p.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      throw Error(ErrorCode::kInvalid,
                  "logit_bias names token " + std::to_string(id) +
                      "; the vocabulary has ids 0 to " + std::to_string(vocab_size - 1),
                  "logit_bias");
    }
    require(true, "logit_bias", "a finite number", bias);
  }
}

}  // namespace tandem
