// What the generating handlers have in common.
#pragma once

#include <memory>
#include <vector>

#include "api/call_options.h"
#include "api/reply_writer.h"
#include "server/app.h"
#include "server/http.h"

namespace tandem::server {

// With --strict-model, Error(kNotFound) for a request that names another model.
void check_model(const api::CallOptions& options, const App& app);

// `prefix` as in "chatcmpl-".
api::CallHead make_head(const char* prefix, const api::CallOptions& options, bool with_logprobs,
                        const App& app);

// Log-probabilities of a request: -1 = none.
struct LogprobsWanted {
  int generated = -1;
  int prompt = -1;
};

struct ChoiceOptions {
  int builtin_max_tokens = 0;  // see make_request
  LogprobsWanted logprobs;
  uint64_t seed = 0;
  std::vector<int32_t> shown_ids;  // see Request
  GuideSpec guide;
};

// Compiles the grammar of `guide`. Throws Error naming `param` when it can't be
// enforced, unless the server falls back to prompts: then returns why, and empties
// the grammar of `guide`. `refusal`, if any, is a reason known before.
std::string prepare_guide(GuideSpec& guide, const std::string& param, const std::string& refusal,
                          App& app);

// The header that says so.
void add_warning(const std::string& why, HttpReply& reply);

// Submits the n choices of one prompt, in order, onto `rows`.
void submit_choices(const api::CallOptions& options, std::vector<int32_t> prompt,
                    const ChoiceOptions& choices, App& app,
                    std::vector<std::unique_ptr<Row>>& rows);

}  // namespace tandem::server
