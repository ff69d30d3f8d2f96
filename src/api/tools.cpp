#include "api/tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/schema_check.h"
#include "base/error.h"
#include "text/parsers/tool_set.h"

namespace tandem::api {
namespace {

constexpr size_t kToolsMax = 512;
constexpr size_t kNameMax = 128;

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

std::string parse_name(Fields& fields) {
  const auto name = fields.string("name");
  const auto path = fields.path_of("name");
  if (!name) throw Error(ErrorCode::kInvalid, path + ": required", path);
  const bool fits = !name->empty() && name->size() <= kNameMax &&
                    std::all_of(name->begin(), name->end(), is_name_byte);
  if (!fits)
    throw_expected(path, "1 to " + std::to_string(kNameMax) + " of A-Z, a-z, 0-9, _, - and .",
                   *name);
  return *name;
}

ToolDefinition parse_tool(const Json& tool, const std::string& path) {
  Fields outer(tool, path);
  const auto type = outer.string("type").value_or("function");
  if (type != "function")
    throw Error(ErrorCode::kUnsupported,
                outer.path_of("type") + ": " + describe(Json(type)) +
                    " tools are not supported, only \"function\"",
                outer.path_of("type"));
  const Json* function = outer.object("function");
  if (!function)
    throw Error(ErrorCode::kInvalid, outer.path_of("function") + ": required",
                outer.path_of("function"));
  Fields fields(*function, outer.path_of("function"));
  ToolDefinition definition;
  definition.name = parse_name(fields);
  definition.description = fields.string("description").value_or("");
  if (const Json* parameters = fields.object("parameters"))
    definition.parameters = to_text(*parameters);
  definition.strict = fields.boolean("strict").value_or(false);
  return definition;
}

void parse_definitions(const Json& tools, ToolOptions& options) {
  if (tools.size() > kToolsMax)
    throw Error(ErrorCode::kInvalid,
                "tools: at most " + std::to_string(kToolsMax) + " tools are allowed", "tools");
  Json all = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const auto path = "tools[" + std::to_string(i) + "]";
    auto tool = parse_tool(tools[i], path);
    const bool known = std::any_of(options.tools.begin(), options.tools.end(),
                                   [&](const auto& other) { return other.name == tool.name; });
    if (known)
      throw Error(ErrorCode::kInvalid,
                  path + ".function.name: there is a tool \"" + tool.name + "\" already",
                  path + ".function.name");
    options.tools.push_back(std::move(tool));
    Json shown = {{"type", "function"}};
    shown.update(tools[i]);
    all.push_back(std::move(shown));
  }
  options.shown = to_text(all);
}

void check_named(const ToolOptions& options, const std::string& path) {
  for (const auto& tool : options.tools)
    if (tool.name == options.named) return;
  throw Error(ErrorCode::kInvalid,
              path + ": there is no tool \"" + options.named + "\" among the tools", path);
}

void parse_choice(Fields& fields, ToolOptions& options) {
  const Json* choice = fields.find("tool_choice");
  if (!choice) return;
  if (choice->is_object()) {
    Fields outer(*choice, "tool_choice");
    const Json* function = outer.object("function");
    Fields inner(function ? *function : *choice, function ? "tool_choice.function" : "tool_choice");
    options.choice = ToolChoice::kNamed;
    options.named = parse_name(inner);
    check_named(options, inner.path_of("name"));
    return;
  }
  if (*choice == "none") {
    options.choice = ToolChoice::kNone;
  } else if (*choice == "required" || *choice == "any") {
    options.choice = ToolChoice::kRequired;
  } else if (*choice != "auto") {
    throw_expected("tool_choice", "\"none\", \"auto\", \"required\" or an object naming a function",
                   *choice);
  }
}

}  // namespace

ToolOptions parse_tools(Fields& fields) {
  ToolOptions options;
  if (const Json* tools = fields.array("tools")) parse_definitions(*tools, options);
  parse_choice(fields, options);
  options.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  if (options.choice == ToolChoice::kRequired && !options.any())
    throw Error(ErrorCode::kInvalid, "tool_choice: \"required\" needs at least one tool in tools",
                "tool_choice");
  // Schemas that are enforced must be such that they can be.
  for (size_t i = 0; i < options.tools.size(); ++i) {
    const auto& tool = options.tools[i];
    const bool must =
        options.choice == ToolChoice::kRequired || options.choice == ToolChoice::kNamed;
    if (tool.parameters.empty() || !(must || tool.strict)) continue;
    if (!options.named.empty() && tool.name != options.named) continue;
    check_schema(Json::parse(tool.parameters),
                 "tools[" + std::to_string(i) + "].function.parameters");
  }
  if (options.choice == ToolChoice::kNone) {
    options.tools.clear();
    options.shown.clear();
  }
  return options;
}

bool any_strict(const ToolOptions& options) {
  return std::any_of(options.tools.begin(), options.tools.end(),
                     [](const auto& tool) { return tool.strict; });
}

ToolSet tool_set(const ToolOptions& options) {
  ToolSet set;
  for (const auto& tool : options.tools)
    set.add(tool.name, tool.parameters.empty() ? Json(nullptr) : Json::parse(tool.parameters));
  if (!options.parallel || options.choice == ToolChoice::kNamed) set.calls_max = 1;
  return set;
}

}  // namespace tandem::api
