#include "api/messages.h"

#include <nlohmann/json.hpp>
#include <set>

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
Json parse_arguments(Fields& function) {
  const auto path = function.path_of("arguments");
  const Json* arguments = function.find("arguments");
  if (!arguments) return Json::object();
  Json value = *arguments;
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    try {
      value = text.empty() ? Json::object() : parse_ordered_json(text, {}, path + ":");
    } catch (const Error& error) {
      // A model may have broken them; the conversation goes on with the text.
      const bool broken =
          std::string_view(error.what()).find("not valid JSON") != std::string::npos;
      if (broken) return value;
      throw Error(error.code(), error.what(), path);
    }
  }
  if (!value.is_object()) throw_expected(path, "a JSON object, as text or as it is", value);
  return value;
}

Json parse_tool_call(const Json& call, const std::string& path, std::set<std::string>& ids) {
  Fields fields(call, path);
  const Json* function = fields.object("function");
  if (!function) throw_expected(fields.path_of("function"), "an object", call);
  Fields inner(*function, fields.path_of("function"));
  const auto name = inner.string("name");
  if (!name)
    throw Error(ErrorCode::kInvalid, inner.path_of("name") + ": required", inner.path_of("name"));
  Json out = {{"type", "function"},
              {"function", {{"name", *name}, {"arguments", parse_arguments(inner)}}}};
  if (const auto id = fields.string("id")) {
    ids.insert(*id);
    out["id"] = *id;
  }
  return out;
}

Json parse_tool_calls(const Json& calls, const std::string& path, std::set<std::string>& ids) {
  Json parsed = Json::array();
  for (size_t i = 0; i < calls.size(); ++i)
    parsed.push_back(parse_tool_call(calls[i], path + "[" + std::to_string(i) + "]", ids));
  return parsed;
}

// A result must answer a call of the conversation: otherwise it is a way to
// put words into the model's context that nobody asked for.
void check_result(Fields& fields, const std::set<std::string>& ids) {
  const auto id = fields.string("tool_call_id");
  if (!id || ids.contains(*id)) return;
  const auto path = fields.path_of("tool_call_id");
  throw Error(ErrorCode::kInvalid,
              path + ": no message before has a tool call with this id: " + describe(Json(*id)),
              path);
}

// `ids` are those of the calls so far.
Json normalise_message(const Json& message, const std::string& path, std::set<std::string>& ids) {
  Fields fields(message, path);
  Json out = Json::object();
  out["role"] = parse_role(fields);
  out["content"] = parse_content(fields, out["role"] == "assistant");
  if (out["role"] == "tool") check_result(fields, ids);
  for (const char* name : {"name", "tool_call_id", "reasoning_content"})
    if (auto value = fields.string(name)) out[name] = *value;
  if (auto reasoning = fields.string("reasoning"); reasoning && !out.contains("reasoning_content"))
    out["reasoning_content"] = *reasoning;
  if (const Json* calls = fields.array("tool_calls"); calls && !calls->empty())
    out["tool_calls"] = parse_tool_calls(*calls, fields.path_of("tool_calls"), ids);
  return out;
}

}  // namespace

std::string normalise_messages(const Json& messages, const std::string& path) {
  if (messages.empty())
    throw Error(ErrorCode::kInvalid, path + ": expected at least one message", path);
  Json out = Json::array();
  std::set<std::string> ids;
  for (size_t i = 0; i < messages.size(); ++i)
    out.push_back(normalise_message(messages[i], path + "[" + std::to_string(i) + "]", ids));
  return to_text(out);
}

}  // namespace tandem::api
