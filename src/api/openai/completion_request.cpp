#include "api/openai/completion_request.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tandem::api::openai {
namespace {

constexpr size_t kMaxPrompts = 1024;
constexpr int kMaxLogprobs = 20;
constexpr const char* kPromptKinds =
    "a string, an array of strings, an array of token ids, or an array of those";

int32_t token_id(const Json& value, const std::string& path) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 ||
      value.get<int64_t>() > std::numeric_limits<int32_t>::max())
    throw_expected(path, "a token id", value);
  return value.get<int32_t>();
}

std::vector<int32_t> token_ids(const Json& array, const std::string& path) {
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i)
    ids.push_back(token_id(array[i], path + "[" + std::to_string(i) + "]"));
  return ids;
}

std::vector<Prompt> parse_prompts(Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (!prompt)
    throw Error(ErrorCode::kInvalid, std::string("prompt: required: ") + kPromptKinds, "prompt");
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array() || prompt->empty()) throw_expected("prompt", kPromptKinds, *prompt);
  if (prompt->front().is_number()) return {token_ids(*prompt, "prompt")};
  if (prompt->size() > kMaxPrompts)
    throw Error(ErrorCode::kInvalid,
                "prompt: at most " + std::to_string(kMaxPrompts) + " prompts in one request",
                "prompt");
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < prompt->size(); ++i) {
    const auto& item = (*prompt)[i];
    const auto path = "prompt[" + std::to_string(i) + "]";
    if (item.is_string())
      prompts.emplace_back(item.get<std::string>());
    else if (item.is_array())
      prompts.emplace_back(token_ids(item, path));
    else
      throw_expected(path, "a string or an array of token ids", item);
  }
  return prompts;
}

// "logprobs": true is what chat clients send; it means the chosen token only.
int parse_logprobs(Fields& fields) {
  const Json* value = fields.find("logprobs");
  if (value && value->is_boolean()) return value->get<bool>() ? 0 : -1;
  return static_cast<int>(fields.integer("logprobs", 0, kMaxLogprobs).value_or(-1));
}

}  // namespace

CompletionRequest parse_completion_request(const Json& body) {
  Fields fields(body);
  CompletionRequest request;
  request.prompts = parse_prompts(fields);
  request.echo = fields.boolean("echo").value_or(false);
  request.logprobs = parse_logprobs(fields);
  request.options = parse_call_options(fields);
  request.unknown_fields = fields.unknown();
  const auto max_tokens = request.options.sampling.max_tokens;
  if (max_tokens && *max_tokens == 0 && !request.echo)
    throw Error(ErrorCode::kInvalid, "max_tokens: 0 generates nothing; it needs \"echo\": true",
                "max_tokens");
  return request;
}

}  // namespace tandem::api::openai
