#include "api/openai/chat_request.h"

#include <nlohmann/json.hpp>

#include "api/messages.h"
#include "base/error.h"

namespace tandem::api::openai {
namespace {

constexpr int kMaxTopLogprobs = 20;
constexpr int kThinkingMax = 1 << 30;

int parse_logprobs(Fields& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && *top > 0 && !wanted)
    throw Error(ErrorCode::kInvalid, "top_logprobs: needs \"logprobs\": true beside it",
                "top_logprobs");
  return wanted ? static_cast<int>(top.value_or(0)) : -1;
}

std::optional<int> parse_thinking_budget(Fields& fields) {
  std::optional<int64_t> budget;
  for (const char* name : {"thinking_budget", "max_thinking_tokens", "thinking_token_budget"})
    if (const auto value = fields.integer(name, -1, kThinkingMax); value && !budget) budget = value;
  if (!budget || *budget < 0) return {};
  return static_cast<int>(*budget);
}

// A later one goes before an earlier one: effort, the flag, the template's own variables.
std::string parse_template_variables(Fields& fields, const ToolOptions& tools) {
  Json variables = Json::object();
  if (auto effort = fields.string("reasoning_effort")) {
    variables["reasoning_effort"] = *effort;
    variables["enable_thinking"] = *effort != "none";
  }
  if (auto thinking = fields.boolean("enable_thinking")) variables["enable_thinking"] = *thinking;
  if (const Json* given = fields.object("chat_template_kwargs")) variables.update(*given);
  if (variables.contains("chat_template") || fields.find("chat_template"))
    throw Error(ErrorCode::kUnsupported,
                "chat_template: a template in a request is not allowed; start the server with "
                "--chat-template FILE",
                "chat_template");
  // Some templates know the flag by this name.
  if (variables.contains("enable_thinking") && !variables.contains("thinking"))
    variables["thinking"] = variables["enable_thinking"];
  if (tools.any()) variables["tools"] = Json::parse(tools.shown);
  return to_text(variables);
}

}  // namespace

ChatRequest parse_chat_request(const Json& body) {
  Fields fields(body);
  ChatRequest request;
  const Json* messages = fields.array("messages");
  if (!messages)
    throw Error(ErrorCode::kInvalid, "messages: required, an array of messages", "messages");
  request.messages = normalise_messages(*messages, "messages");
  request.logprobs = parse_logprobs(fields);
  request.tools = parse_tools(fields);
  request.template_variables = parse_template_variables(fields, request.tools);
  request.thinking_budget = parse_thinking_budget(fields);
  request.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  fields.ignore({"functions", "function_call", "modalities", "verbosity", "web_search_options"});
  request.options = parse_call_options(fields);
  request.unknown_fields = fields.unknown();
  if (request.options.sampling.max_tokens == 0)
    throw Error(ErrorCode::kInvalid, "max_tokens: 0 generates nothing; expected at least 1",
                "max_tokens");
  return request;
}

}  // namespace tandem::api::openai
