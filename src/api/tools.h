// The tools of a request, as clients define them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/fields.h"

namespace tandem {
class ToolSet;
}

namespace tandem::api {

struct ToolDefinition {
  std::string name;
  std::string description;
  std::string parameters;  // JSON text of a schema, empty if there is none
  bool strict = false;     // arguments must follow the schema
};

enum class ToolChoice : uint8_t { kAuto, kNone, kRequired, kNamed };

struct ToolOptions {
  std::vector<ToolDefinition> tools;  // empty with kNone: the model is shown none
  ToolChoice choice = ToolChoice::kAuto;
  std::string named;     // the tool of kNamed
  bool parallel = true;  // several calls in one answer
  std::string shown;     // JSON text of an array: what the chat template gets

  bool any() const { return !tools.empty(); }
};

// Reads tools, tool_choice and parallel_tool_calls of a chat completion. Throws
// Error naming the field.
ToolOptions parse_tools(Fields& fields);

// Some tool's arguments must follow its schema.
bool any_strict(const ToolOptions& options);

// What an output parser needs of them.
ToolSet tool_set(const ToolOptions& options);

}  // namespace tandem::api
