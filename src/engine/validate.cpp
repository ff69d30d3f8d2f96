#include "engine/validate.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/memory.h"
#include "sampling/params.h"

namespace tandem {

namespace {

void check_prompt(const Request& request, const ModelCard& card) {
  if (request.prompt.empty()) {
    throw Error(ErrorCode::kInvalid, "the prompt is empty; it needs at least one token", "prompt");
  }
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t id = request.prompt[i];
    if (id >= 0 && id < card.vocab_size) continue;
    throw Error(ErrorCode::kInvalid,
                "prompt[" + std::to_string(i) + "] is token " + std::to_string(id) +
                    "; the vocabulary has ids 0 to " + std::to_string(card.vocab_size - 1),
                "prompt");
  }
}

void check_counts(const Request& request) {
  const auto require = [](bool good, const std::string& message, const char* param) {
    if (!good) throw Error(ErrorCode::kInvalid, message, param);
  };
  const bool scores_only = request.max_tokens == 0 && request.prompt_logprobs >= 0;
  require(request.max_tokens > 0 || scores_only,
          "max_tokens must be at least 1 (0 with prompt logprobs), got " +
              std::to_string(request.max_tokens),
          "max_tokens");
  require(request.min_tokens >= 0 && request.min_tokens <= request.max_tokens,
          "min_tokens must be between 0 and max_tokens (" + std::to_string(request.max_tokens) +
              "), got " + std::to_string(request.min_tokens),
          "min_tokens");
  require(request.logprobs >= -1, "logprobs must be at least 0", "logprobs");
  require(request.prompt_logprobs >= -1, "prompt_logprobs must be at least 0", "prompt_logprobs");
  require(request.choice >= 0, "choice must be at least 0", "choice");
}

void check_stop(const Request& request, const ModelCard& card) {
  for (size_t i = 0; i < request.stop.size(); ++i) {
    if (!request.stop[i].empty()) continue;
    const std::string field = "stop[" + std::to_string(i) + "]";
    throw Error(ErrorCode::kInvalid, field + " is empty; a stop string needs a character", field);
  }
  if (!request.stop.empty() && !card.tokenizer) {
    throw Error(ErrorCode::kUnsupported,
                "stop strings need text, and this model has no tokenizer; use stop token ids",
                "stop");
  }
}

void clamp_to_context(Request& request, const ModelCard& card) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t room = int64_t{card.context_length} - prompt;
  const int64_t least = request.max_tokens > 0 ? 1 : 0;
  if (room < least) {
    throw Error(ErrorCode::kContextLength,
                "the prompt has " + std::to_string(prompt) + " tokens, and the context holds " +
                    std::to_string(card.context_length) + " with the answer; shorten the prompt",
                "prompt");
  }
  request.max_tokens = static_cast<int>(std::min<int64_t>(request.max_tokens, room));
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
}

// The cache may hold less than the context.
void clamp_to_memory(Request& request, const ModelCard& card, const SchedulerLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t longest = limits.longest_row();
  if (prompt > longest) {
    const double share = static_cast<double>(prompt) / static_cast<double>(longest);
    const auto needed = static_cast<int64_t>(static_cast<double>(card.kv_bytes_max) * share);
    throw Error(ErrorCode::kMemory,
                "the prompt has " + std::to_string(prompt) + " tokens, whose cache needs about " +
                    bytes_text(needed) + "; the cache may take " + bytes_text(card.kv_bytes_max) +
                    ", which is " + std::to_string(longest) +
                    " tokens; shorten the prompt, or give the cache more memory",
                "prompt");
  }
  // The last token is never computed.
  request.max_tokens =
      static_cast<int>(std::min<int64_t>(request.max_tokens, longest - prompt + 1));
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
}

}  // namespace

void validate(Request& request, const ModelCard& card, const SchedulerLimits& limits) {
  check_prompt(request, card);
  check_counts(request);
  check_stop(request, card);
  check_sampling(request.sampling, card.vocab_size);
  clamp_to_context(request, card);
  clamp_to_memory(request, card, limits);
}

}  // namespace tandem
