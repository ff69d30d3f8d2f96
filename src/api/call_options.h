// What the generating endpoints of every API share: sampling, lengths, stops,
// number of choices, streaming.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/fields.h"
#include "api/grammar_options.h"
#include "api/sampling_defaults.h"
#include "sched/request.h"

namespace tandem::api {

struct CallOptions {
  std::string model;  // as the client named it; empty if it did not
  SamplingChoice sampling;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::map<int32_t, float> logit_bias;
  std::optional<uint64_t> seed;
  int n = 1;
  int min_tokens = 0;
  bool ignore_eos = false;
  int priority = 0;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;
  bool stream = false;
  bool include_usage = false;  // one more chunk with the usage at the end of a stream
  bool return_token_ids = false;
  std::optional<AnswerForm> form;  // none: free text
};

// What a request is checked against and completed with.
struct ModelFacts {
  std::string id;
  int context_length = 0;
  int vocab_size = 0;
  SamplingChoice defaults;  // command line over generation_config.json
};

// Reads the shared fields. Throws Error naming the field; fields that cannot be
// honoured yet and whose loss would change the result are kUnsupported.
CallOptions parse_call_options(Fields& fields);

// Refuses text so long that it cannot fit into the context, before the work of
// encoding it: Error(kContextLength).
void check_text_size(size_t bytes, const ModelFacts& model);

// The row of one choice. Without a max_tokens anywhere, `builtin_max_tokens`
// holds (0 = up to the context length). max_tokens is clamped to what the
// context leaves; a prompt that leaves nothing is Error(kContextLength).
Request make_request(const CallOptions& options, const ModelFacts& model,
                     std::vector<int32_t> prompt, int choice, uint64_t seed,
                     int builtin_max_tokens);

}  // namespace tandem::api
