// POST /v1/completions: the legacy text endpoint of OpenAI, with the parts that
// evaluation harnesses use (token-id prompts, echo with log-probabilities).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "api/call_options.h"

namespace tandem::api::openai {

// Text gets the tokenizer's own BOS; token ids are taken as they are.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

// max_tokens when neither the request nor the server says one.
inline constexpr int kCompletionMaxTokens = 512;

struct CompletionRequest {
  CallOptions options;
  std::vector<Prompt> prompts;  // at least one
  bool echo = false;
  int logprobs = -1;  // -1 = none, N = the chosen token and N alternatives
  std::vector<std::string> unknown_fields;
};

// Throws Error naming the field.
CompletionRequest parse_completion_request(const Json& body);

}  // namespace tandem::api::openai
