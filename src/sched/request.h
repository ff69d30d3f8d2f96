// What a caller asks of the engine, and what it gets back. Wire formats are
// translated to and from these in api/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sched/route.h"

namespace tandem {

// Per-request sampling. The defaults are those of plain greedy decoding; the
// chain request > command line > generation_config.json is resolved in api/.
struct SamplingParams {
  float temperature = 0;  // 0 = argmax
  float top_p = 1;        // in (0, 1]
  int top_k = 0;          // 0 = all
  float min_p = 0;        // in [0, 1]
  uint64_t seed = 0;      // randomness is keyed by (seed, choice, position)
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::map<int32_t, float> logit_bias;
};

struct Request {
  std::vector<int32_t> prompt;  // token ids, at least one
  SamplingParams sampling;
  int choice = 0;      // index among the n choices of one call
  int max_tokens = 0;  // 0 with prompt logprobs only: generates nothing
  int min_tokens = 0;  // no stop id and no stop string before this many
  bool ignore_eos = false;
  std::vector<int32_t> stop_ids;   // besides those of the model
  std::vector<std::string> stop;   // stop strings, none empty
  std::vector<int32_t> shown_ids;  // control tokens that show in the text, ascending
  int logprobs = -1;               // -1 = none, N = chosen and N most likely
  int prompt_logprobs = -1;        // same for each prompt token
  int priority = 0;
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };

const char* finish_reason_name(FinishReason reason);

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};

// One token, generated or of the prompt, with its alternatives if asked for.
struct TokenInfo {
  int32_t id = 0;
  bool has_logprob = false;  // false for the first prompt token
  float logprob = 0;
  std::vector<TokenLogprob> top;  // most likely first
};

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;     // of these, found in the cache
  int generated_tokens = 0;  // counts the stop token
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  int preemptions = 0;  // times the row gave its pages back and began again
  Route route;          // which lane it took, and why
};

// What a row delivers, in order: any number of prompt tokens (when asked for),
// then tokens with text, then one final event whose finish is not kNone.
struct Event {
  std::vector<TokenInfo> prompt;  // prompt logprobs, in order
  std::vector<TokenInfo> tokens;  // generated since the last event
  std::string text;               // whole UTF-8 characters; stop strings held back
  FinishReason finish = FinishReason::kNone;
  std::string matched_stop;  // the stop string that ended the row
  Usage usage;               // set with the final event
  int error_code = 0;        // an ErrorCode when finish is kError
  std::string error;
};

}  // namespace tandem
