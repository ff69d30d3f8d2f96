// Replies of POST /v1/chat/completions, whole and streamed.
#pragma once

#include <functional>
#include <memory>

#include "api/reply_writer.h"
#include "text/parsers/output_parser.h"

namespace tandem::api::openai {

// How the text of a row becomes a message.
struct ChatOutput {
  OutputParserOptions parser;
  bool include_reasoning = true;
  std::function<std::string()> new_call_id;  // each different
};

// chat.completion
std::unique_ptr<ReplyWriter> chat_reply(CallHead head, int rows, ChatOutput output);
// chat.completion.chunk events: a role chunk for each choice with its first
// event, deltas of content, reasoning and tool calls, a finish chunk, the usage
// if asked for, [DONE]. A call's index, id and name come once, in its first delta.
std::unique_ptr<ReplyWriter> chat_stream(CallHead head, int rows, ChatOutput output);

}  // namespace tandem::api::openai
