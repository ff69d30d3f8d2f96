#include "api/tool_prompt.h"

#include <nlohmann/json.hpp>

namespace tandem::api {
namespace {

std::string instructions(const ToolOptions& tools) {
  std::string text = "You can call these tools:\n<tools>\n";
  for (const Json& tool : Json::parse(tools.shown)) text += to_text(tool) + "\n";
  return text +
         "</tools>\nTo call a tool, answer with its name and arguments between tags, for each "
         "call:\n<tool_call>\n{\"name\": \"TOOL\", \"arguments\": {\"KEY\": VALUE}}\n</tool_call>";
}

void write_out_calls(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  auto text = message["content"].get<std::string>();
  for (const Json& call : *calls) {
    const auto& function = call["function"];
    const Json shown = {{"name", function["name"]}, {"arguments", function["arguments"]}};
    if (!text.empty()) text += '\n';
    text += "<tool_call>\n" + to_text(shown) + "\n</tool_call>";
  }
  message.erase("tool_calls");
  message["content"] = text;
}

// Results that follow each other are one message, since templates want turns.
void add_result(const Json& message, Json& out) {
  const std::string text =
      "<tool_response>\n" + message["content"].get<std::string>() + "\n</tool_response>";
  if (!out.empty() && out.back().contains("of_tools")) {
    auto& content = out.back()["content"];
    content = content.get<std::string>() + "\n" + text;
  } else {
    out.push_back({{"role", "user"}, {"content", text}, {"of_tools", true}});
  }
}

}  // namespace

std::string describe_tools(const std::string& messages, const ToolOptions& tools) {
  Json out = Json::array();
  Json parsed = Json::parse(messages);
  for (Json& message : parsed) {
    if (message["role"] == "tool") {
      add_result(message, out);
    } else {
      write_out_calls(message);
      out.push_back(std::move(message));
    }
  }
  for (Json& message : out) message.erase("of_tools");
  return tools.any() ? with_hint(to_text(out), instructions(tools)) : to_text(out);
}

std::string with_hint(const std::string& messages, const std::string& hint) {
  Json out = Json::parse(messages);
  if (!out.empty() && out[0]["role"] == "system") {
    auto& content = out[0]["content"];
    content = content.get<std::string>() + "\n\n" + hint;
  } else {
    out.insert(out.begin(), Json{{"role", "system"}, {"content", hint}});
  }
  return to_text(out);
}

}  // namespace tandem::api
