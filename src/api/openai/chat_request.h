// POST /v1/chat/completions: the body as OpenAI defines it.
#pragma once

#include <string>
#include <vector>

#include "api/call_options.h"
#include "api/tools.h"

namespace tandem::api::openai {

struct ChatRequest {
  CallOptions options;
  // Messages as templates want them: each an object with role and content, the
  // content a string (parts joined), "developer" renamed to "system", arguments
  // of tool calls as objects, keys in the client's order.
  std::string messages;            // JSON text of an array
  std::string template_variables;  // JSON text of an object: tools, chat_template_kwargs and such
  ToolOptions tools;
  std::optional<int> thinking_budget;  // tokens that the model may think
  bool include_reasoning = true;       // false: what the model thinks is left out
  int logprobs = -1;                   // -1 = none, N = the chosen token and N alternatives
  std::vector<std::string> unknown_fields;
};

// Throws Error naming the field.
ChatRequest parse_chat_request(const Json& body);

}  // namespace tandem::api::openai
