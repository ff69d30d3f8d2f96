#include "text/parsers/answer_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/parsers/json_scanner.h"
#include "text/parsers/lark_writer.h"
#include "text/parsers/tool_set.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSpace = R"(/[ \t\n]*/)";
constexpr const char* kOneLine = "\\n";
constexpr int kMoreCallsMax = 15;

// How calls look: what stands around all of them, each, and between two.
struct CallStyle {
  std::string open;      // before the first
  std::string begin;     // before the name
  std::string name_end;  // behind it
  std::string end;       // behind the arguments
  std::string between;
  std::string close;  // behind the last
  enum class Arguments : uint8_t { kJson, kPython, kTags, kGemma } arguments = Arguments::kJson;
  bool one_only = false;
  // kTags and kGemma: around keys and values.
  std::string key_open, key_end, value_end;
};

using Arguments = CallStyle::Arguments;

CallStyle style_of(ToolFormat format, bool new_mistral) {
  switch (format) {
    case ToolFormat::kHermes:
      return {.begin = "<tool_call>\n{\"name\": \"",
              .name_end = "\", \"arguments\": ",
              .end = "}\n</tool_call>",
              .between = "\n"};
    case ToolFormat::kQwenCoder:
      return {.begin = "<tool_call>\n<function=",
              .name_end = ">\n",
              .end = "</function>\n</tool_call>",
              .between = "\n",
              .arguments = Arguments::kTags,
              .key_open = "<parameter=",
              .key_end = ">\n",
              .value_end = "\n</parameter>\n"};
    case ToolFormat::kGlm:
      return {.begin = "<tool_call>",
              .name_end = "\n",
              .end = "</tool_call>",
              .between = "\n",
              .arguments = Arguments::kTags,
              .key_open = "<arg_key>",
              .key_end = "</arg_key>\n<arg_value>",
              .value_end = "</arg_value>\n"};
    case ToolFormat::kMiniCpm:
      return {.begin = "<function name=\"",
              .name_end = "\">",
              .end = "</function>",
              .between = "\n",
              .arguments = Arguments::kTags,
              .key_open = "<param name=\"",
              .key_end = "\">",
              .value_end = "</param>"};
    case ToolFormat::kMiniMax:
      return {.open = "<minimax:tool_call>\n",
              .begin = "<invoke name=\"",
              .name_end = "\">\n",
              .end = "</invoke>\n",
              .close = "</minimax:tool_call>",
              .arguments = Arguments::kTags,
              .key_open = "<parameter name=\"",
              .key_end = "\">",
              .value_end = "</parameter>\n"};
    case ToolFormat::kDeepSeek:
      return {.open = "<｜tool▁calls▁begin｜>",
              .begin = "<｜tool▁call▁begin｜>",
              .name_end = "<｜tool▁sep｜>",
              .end = "<｜tool▁call▁end｜>",
              .close = "<｜tool▁calls▁end｜>"};
    case ToolFormat::kKimi:
      return {.open = "<|tool_calls_section_begin|>",
              .begin = "<|tool_call_begin|>functions.",
              .name_end = ":0<|tool_call_argument_begin|>",
              .end = "<|tool_call_end|>",
              .close = "<|tool_calls_section_end|>"};
    case ToolFormat::kMistral:
      if (new_mistral) return {.begin = "[TOOL_CALLS]", .name_end = "[ARGS]"};
      return {.open = "[TOOL_CALLS][",
              .begin = "{\"name\": \"",
              .name_end = "\", \"arguments\": ",
              .end = "}",
              .between = ", ",
              .close = "]"};
    case ToolFormat::kLlamaJson:
      return {.begin = "{\"name\": \"",
              .name_end = "\", \"parameters\": ",
              .end = "}",
              .between = "; "};
    case ToolFormat::kPythonic:
      return {.open = "[",
              .name_end = "(",
              .end = ")",
              .between = ", ",
              .close = "]",
              .arguments = Arguments::kPython};
    case ToolFormat::kOlmo:
      return {.open = "<function_calls>\n",
              .name_end = "(",
              .end = ")\n",
              .close = "</function_calls>",
              .arguments = Arguments::kPython};
    case ToolFormat::kMiniCpm3:
      return {.open = "<|tool_call_start|>\n```python\n",
              .name_end = "(",
              .end = ")\n",
              .close = "```\n<|tool_call_end|>",
              .arguments = Arguments::kPython};
    case ToolFormat::kGemma3:
      return {.open = "```tool_code\n",
              .name_end = "(",
              .end = ")\n",
              .close = "```",
              .arguments = Arguments::kPython};
    case ToolFormat::kFunctionGemma:
      return {.begin = "<start_function_call>call:",
              .name_end = "{",
              .end = "}<end_function_call>",
              .arguments = Arguments::kGemma,
              .value_end = "<escape>"};
    case ToolFormat::kGemma4:
      return {.begin = "<|tool_call>call:",
              .name_end = "{",
              .end = "}<tool_call|>",
              .arguments = Arguments::kGemma,
              .value_end = "<|\"|>"};
    case ToolFormat::kHarmony:
      return {.begin = "<|channel|>commentary to=functions.",
              .name_end = " <|constrain|>json<|message|>",
              .one_only = true};
    case ToolFormat::kNone: break;
  }
  throw Error(ErrorCode::kUnsupported,
              "tool_choice: this model's format of tool calls is not known; start the server with "
              "--tool-format",
              "tool_choice");
}

// The parameters of one tool as rules.
class ToolRules {
 public:
  ToolRules(const CallStyle& style, const CallableTool& tool, int number, LarkWriter& lark)
      : style_(style),
        lark_(lark),
        prefix_(std::string("t").append(std::to_string(number)).append("_")) {
    schema_ = tool.parameters.empty() ? Json::object() : Json::parse(tool.parameters);
    if (!tool.checked) schema_ = Json{{"type", "object"}};
    ToolSet set;
    set.add(tool.name, schema_);
    types_ = *set.find(tool.name);
    checked_ = tool.checked;
  }

  // An expression for the arguments.
  std::string arguments() {
    if (style_.arguments == Arguments::kJson || !checked_)
      return std::string("%json ").append(whole_schema());
    const auto properties = schema_.find("properties");
    if (properties == schema_.end() || !properties->is_object() || properties->empty())
      return "\"\"";
    return style_.arguments == Arguments::kTags ? tags(*properties) : list(*properties);
  }

 private:
  std::string whole_schema() const {
    Json schema = schema_;
    if (!schema.contains("type") && !schema.contains("$ref")) schema["type"] = "object";
    // Tools take the parameters that they name.
    if (checked_ && schema.contains("properties") && !schema.contains("additionalProperties"))
      schema["additionalProperties"] = false;
    if (checked_ && schema.size() == 1) schema["additionalProperties"] = false;
    schema["x-guidance"] = {{"whitespace_pattern", "[ \\n]?"}};
    return schema.dump();
  }

  bool is_required(const std::string& key) const {
    const auto required = schema_.find("required");
    if (required == schema_.end() || !required->is_array()) return false;
    return std::find(required->begin(), required->end(), Json(key)) != required->end();
  }

  // With the definitions that it may refer to.
  std::string json_value(const Json& property) const {
    Json schema = property.is_object() ? property : Json::object();
    for (const char* name : {"$defs", "definitions"})
      if (schema_.contains(name)) schema[name] = schema_[name];
    return std::string("%json ").append(schema.dump());
  }

  static bool is_choice(const Json& property) {
    const auto list = property.find("enum");
    return list != property.end() && list->is_array() && !list->empty();
  }

  std::string choice(const Json& property) const {
    std::string out;
    for (const Json& value : property["enum"]) {
      if (!out.empty()) out += " | ";
      out += lark_.spell(value.is_string() ? value.get<std::string>() : value.dump());
    }
    return "(" + out + ")";
  }

  std::string tags(const Json& properties) {
    std::string out;
    int number = 0;
    for (const auto& [key, property] : properties.items()) {
      const std::string name = prefix_ + "p" + std::to_string(number++);
      lark_.rule(name, lark_.spell(style_.key_open + key + style_.key_end) + " " +
                           tag_value(key, property));
      out += " " + name + (is_required(key) ? "" : "?");
    }
    return out;
  }

  std::string tag_value(const std::string& key, const Json& property) {
    const std::string end = lark_.spell(style_.value_end);
    const JsonTypes types = types_.types_of(key);
    if (property.is_object() && is_choice(property)) return choice(property) + " " + end;
    if (!types.string) return json_value(property) + " " + end;
    if (!types.only_string()) return lark_.until(style_.value_end);
    return lark_.until(style_.value_end);
  }

  // key=value or key:value with commas between those that are there: a_N when none
  // is there yet, b_N behind one.
  std::string list(const Json& properties) {
    std::string first_rest = "\"\"", next_rest = "\"\"";
    std::vector<std::pair<std::string, Json>> all;
    for (const auto& [key, property] : properties.items()) all.emplace_back(key, property);
    for (size_t i = all.size(); i-- > 0;) {
      const auto& [key, property] = all[i];
      const std::string number = std::to_string(i);
      lark_.rule(prefix_ + "v" + number, list_value(key, property));
      const std::string value = prefix_ + "v" + number + " " + next_rest;
      const bool needed = is_required(key);
      const bool python = style_.arguments == Arguments::kPython;
      lark_.rule(prefix_ + "a" + number, value + (needed ? "" : " | " + first_rest));
      lark_.rule(prefix_ + "b" + number, std::string(python ? "\", \" " : "\",\" ") + value +
                                             (needed ? "" : " | " + next_rest));
      first_rest = prefix_ + "a" + number;
      next_rest = prefix_ + "b" + number;
    }
    return first_rest;
  }

  std::string list_value(const std::string& key, const Json& property) {
    if (style_.arguments == Arguments::kPython)
      return lark_.spell(key + "=") + " " + json_value(property);
    const std::string quote = lark_.spell(style_.value_end);
    std::string value;
    if (property.is_object() && is_choice(property) && types_.types_of(key).only_string()) {
      value = quote + " " + choice(property) + " " + quote;
    } else if (types_.types_of(key).only_string()) {
      value = quote + " " + lark_.until(style_.value_end);
    } else {
      value = json_value(property);
    }
    return lark_.spell(key + ":") + " " + value;
  }

  const CallStyle& style_;
  LarkWriter& lark_;
  const std::string prefix_;
  Json schema_;
  ToolSignature types_;
  bool checked_ = true;
};

// The expression for what comes before the answer; empty if nothing.
std::string thinking_rules(const OutputFormat& format, Thinking thinking, LarkWriter& lark) {
  if (format.tools == ToolFormat::kHarmony) {
    lark.rule("thinking", lark.spell("<|channel|>analysis<|message|>") + " " + kAnyText + " " +
                              lark.spell("<|end|><|start|>assistant"));
    return "thinking? ";
  }
  if (thinking == Thinking::kNone || format.think_close.empty()) return "";
  const std::string rest = lark.until(format.think_close) + " " + kSpace;
  const bool begun = thinking == Thinking::kBegun;
  lark.rule("thinking", begun ? rest : lark.spell(format.think_open) + " " + rest);
  return begun ? "thinking " : "thinking? ";
}

// What gpt-oss says before an answer.
std::string final_channel(const OutputFormat& format, const LarkWriter& lark) {
  if (format.tools != ToolFormat::kHarmony) return "";
  return lark.spell("<|channel|>final<|message|>") + " ";
}

std::string escaped_slashes(const std::string& regex) {
  std::string out;
  bool escaped = false;
  for (const char c : regex) {
    if (c == '/' && !escaped) out += '\\';
    escaped = c == '\\' && !escaped;
    if (c == '\n') {
      out += kOneLine;
    } else {
      out += c;
    }
  }
  return out;
}

std::string body_rule(const GrammarText& body) {
  switch (body.kind) {
    case GrammarKind::kJsonSchema: return "%json " + body.text;
    case GrammarKind::kRegex:
      return std::string("/").append(escaped_slashes(body.text)).append("/");
    case GrammarKind::kLark: return "%lark {\n" + body.text + "\n}";
  }
  return {};
}

// The text that shows that calls begin; empty if it takes more than one to tell.
std::string trigger_of(const CallStyle& style) {
  const std::string all = style.open + style.begin;
  const size_t first_end = all.find_first_of(">]\"");
  const bool marked = all.starts_with('<') || all.starts_with("[TOOL_CALLS]");
  if (!marked) return all.starts_with("```") ? all : std::string();
  return all.substr(0, first_end + 1);
}

// Text, and calls behind it. In text what begins a call must go on as one.
std::string text_or_calls(const CallStyle& style, const std::vector<CallableTool>& tools,
                          const std::string& more, LarkWriter& lark) {
  const std::string trigger = trigger_of(style);
  if (trigger.empty()) {
    lark.rule("TEXT", R"(/([^\[{ \n](.|\n)*)?/)");
    return "(calls | TEXT)";
  }
  std::string first;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string begin = style.open + style.begin + tools[i].name + style.name_end;
    if (!first.empty()) first += " | ";
    first += lark.spell(begin.substr(trigger.size())) + " args_" + std::to_string(i) + " " +
             lark.spell(style.end);
  }
  lark.rule("first_call", first);
  lark.rule("TEXT", lark.is_control(trigger) ? kAnyText
                                             : std::string(kAnyText) + R"( & ~/(.|\n)*)" +
                                                   escaped_regex(trigger) + R"((.|\n)*/)");
  return std::string("(").append(lark.until(trigger)) + " first_call" + more + " | TEXT)";
}

}  // namespace

GrammarText text_grammar(const OutputFormat& format, Thinking thinking, const GrammarText& body,
                         const Tokenizer& tokenizer) {
  LarkWriter lark(format, tokenizer);
  std::string before = thinking_rules(format, thinking, lark);
  if (before.empty()) return body;
  before += final_channel(format, lark);
  lark.rule("answer", body_rule(body));
  lark.rule("start", before + "answer");
  return {.kind = GrammarKind::kLark, .text = lark.take()};
}

GrammarText call_grammar(const OutputFormat& format, Thinking thinking,
                         const std::vector<CallableTool>& tools, const CallRules& rules,
                         const Tokenizer& tokenizer) {
  LarkWriter lark(format, tokenizer);
  const CallStyle style = style_of(format.tools, tokenizer.token_to_id("[ARGS]").has_value());
  std::string any_call;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string number = std::to_string(i);
    ToolRules tool(style, tools[i], static_cast<int>(i), lark);
    lark.rule("args_" + number, tool.arguments());
    lark.rule("call_" + number, lark.spell(style.begin + tools[i].name + style.name_end) +
                                    " args_" + number + " " + lark.spell(style.end));
    any_call += (any_call.empty() ? "call_" : " | call_") + number;
  }
  lark.rule("call", any_call);
  std::string more;
  if (rules.several && !style.one_only)
    more.append(" (")
        .append(lark.spell(style.between))
        .append(" call){0,")
        .append(std::to_string(kMoreCallsMax))
        .append("}");
  more.append(" ").append(lark.spell(style.close));
  lark.rule("calls", lark.spell(style.open) + " call" + more);
  const std::string before = thinking_rules(format, thinking, lark);
  std::string start = "calls";
  if (rules.form) {
    lark.rule("answer", body_rule(*rules.form));
    start = std::string("(calls | ").append(final_channel(format, lark)).append("answer)");
  } else if (rules.text_allowed) {
    start = text_or_calls(style, tools, more, lark);
  }
  lark.rule("start", before + start);
  return {.kind = GrammarKind::kLark, .text = lark.take()};
}

}  // namespace tandem
