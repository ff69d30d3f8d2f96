#include "api/messages.h"

#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem::api {
namespace {

std::string parse_role(Fields& fields) {
  const auto role = fields.string("role");
  const auto path = fields.path_of("role");
  if (!role) throw Error(ErrorCode::kInvalid, path + ": required", path);
  if (*role == "developer") return "system";
  for (const char* known : {"system", "user", "assistant", "tool"})
    if (*role == known) return *role;
  throw Error(
      ErrorCode::kInvalid,
      path + ": expected system, developer, user, assistant or tool, got " + describe(Json(*role)),
      path);
}

std::string part_text(const Json& part, const std::string& path) {
  if (part.is_string()) return part.get<std::string>();
  Fields fields(part, path);
  const auto type = fields.string("type").value_or("text");
  if (type != "text" && type != "input_text" && type != "output_text")
    throw Error(ErrorCode::kUnsupported,
                fields.path_of("type") + ": " + describe(Json(type)) +
                    " parts are not supported, only \"text\"",
                fields.path_of("type"));
  const auto text = fields.string("text");
  if (!text)
    throw Error(ErrorCode::kInvalid, fields.path_of("text") + ": required", fields.path_of("text"));
  return *text;
}

std::string parse_content(Fields& fields, bool may_be_absent) {
  const Json* content = fields.find("content");
  const auto path = fields.path_of("content");
  if (!content) {
    if (may_be_absent) return {};
    throw Error(ErrorCode::kInvalid, path + ": required, a string or an array of text parts", path);
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) throw_expected(path, "a string or an array of text parts", *content);
  std::string text;
  for (size_t i = 0; i < content->size(); ++i)
    text += part_text((*content)[i], path + "[" + std::to_string(i) + "]");
  return text;
}

// Templates iterate over arguments as a mapping; the wire sends JSON text.
Json parse_tool_calls(const Json& calls, const std::string& path) {
  Json parsed = calls;
  for (size_t i = 0; i < parsed.size(); ++i) {
    const auto place = path + "[" + std::to_string(i) + "].function";
    auto& call = parsed[i];
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      throw_expected(place, "an object", call);
    auto& arguments = call["function"]["arguments"];
    if (!arguments.is_string()) continue;
    const auto text = arguments.get<std::string>();
    try {
      arguments = text.empty() ? Json::object() : parse_json(text, {}, place + ".arguments:");
    } catch (const Error& error) {
      throw Error(error.code(), error.what(), place + ".arguments");
    }
  }
  return parsed;
}

Json normalise_message(const Json& message, const std::string& path) {
  Fields fields(message, path);
  Json out = Json::object();
  out["role"] = parse_role(fields);
  out["content"] = parse_content(fields, out["role"] == "assistant");
  for (const char* name : {"name", "tool_call_id", "reasoning_content"})
    if (auto value = fields.string(name)) out[name] = *value;
  if (const Json* calls = fields.array("tool_calls"); calls && !calls->empty())
    out["tool_calls"] = parse_tool_calls(*calls, fields.path_of("tool_calls"));
  return out;
}

}  // namespace

std::string normalise_messages(const Json& messages, const std::string& path) {
  if (messages.empty())
    throw Error(ErrorCode::kInvalid, path + ": expected at least one message", path);
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i)
    out.push_back(normalise_message(messages[i], path + "[" + std::to_string(i) + "]"));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tandem::api
