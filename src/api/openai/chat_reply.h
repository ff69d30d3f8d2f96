// Replies of POST /v1/chat/completions, whole and streamed.
#pragma once

#include <memory>

#include "api/reply_writer.h"

namespace tandem::api::openai {

// chat.completion
std::unique_ptr<ReplyWriter> chat_reply(CallHead head, int rows);
// chat.completion.chunk events: a role chunk for each choice with its first
// event, content deltas, a finish chunk, the usage if asked for, [DONE].
std::unique_ptr<ReplyWriter> chat_stream(CallHead head, int rows);

}  // namespace tandem::api::openai
