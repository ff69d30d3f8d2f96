// Replies of POST /v1/completions, whole and streamed.
//
// Log-probabilities have OpenAI's legacy shape: tokens, token_logprobs,
// top_logprobs, text_offset. The first prompt token has null. A token that is
// not whole characters is written as bytes:\xf0\x9f, and without a tokenizer a
// token is token_id:42. text_offset counts characters of the choice's own text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/reply_writer.h"

namespace tandem::api::openai {

// What the reply repeats of a row's prompt.
struct EchoedPrompt {
  std::string text;          // empty without echo
  std::vector<int32_t> ids;  // for return_token_ids
};

// text_completion; one prompt for each row.
std::unique_ptr<ReplyWriter> completion_reply(CallHead head, std::vector<EchoedPrompt> prompts);
// The same object as events, then the usage if asked for, then [DONE].
std::unique_ptr<ReplyWriter> completion_stream(CallHead head, std::vector<EchoedPrompt> prompts);

}  // namespace tandem::api::openai
