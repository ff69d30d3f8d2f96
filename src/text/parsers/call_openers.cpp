// The formats of calls, as data.
#include "text/parsers/tagged_parser.h"

namespace tandem {
namespace {

TagCallsShape qwen_coder(bool opened, std::string section_close) {
  return {.open = "<function=",
          .name_end = ">",
          .key_open = "<parameter=",
          .key_end = ">",
          .value_open = "",
          .value_close = "</parameter>",
          .close = "</function>",
          .section_close = std::move(section_close),
          .opened = opened,
          .trims_newlines = true};
}

TagCallsShape glm() {
  return {.open = "<tool_call>",
          .name_end = "",
          .key_open = "<arg_key>",
          .key_end = "</arg_key>",
          .value_open = "<arg_value>",
          .value_close = "</arg_value>",
          .close = "</tool_call>",
          .section_close = "",
          .opened = true};
}

TagCallsShape mini_cpm() {
  return {.open = "<function name=\"",
          .name_end = "\">",
          .key_open = "<param name=\"",
          .key_end = "\">",
          .value_open = "",
          .value_close = "</param>",
          .close = "</function>",
          .section_close = "",
          .opened = true};
}

TagCallsShape mini_max() {
  return {.open = "<invoke name=",
          .name_end = ">",
          .key_open = "<parameter name=\"",
          .key_end = "\">",
          .value_open = "",
          .value_close = "</parameter>",
          .close = "</invoke>",
          .section_close = "</minimax:tool_call>",
          .trims_newlines = true};
}

// Models of one family mix the forms between <tool_call> tags, so all are read.
std::unique_ptr<CallParser> between_tool_call_tags() {
  std::vector<CallChoice> choices;
  choices.push_back({"{[", json_calls({.close = "</tool_call>"})});
  choices.push_back({"<", tag_calls(qwen_coder(/*opened=*/false, "</tool_call>"))});
  choices.push_back({"", tag_calls(glm())});
  return either_call(std::move(choices));
}

std::unique_ptr<CallParser> mistral() {
  std::vector<CallChoice> choices;
  choices.push_back({"{[", json_calls({.close = ""})});
  choices.push_back({"", named_calls({.open = "",
                                      .separators = {"[ARGS]"},
                                      .id_separator = "[CALL_ID]",
                                      .close = "",
                                      .section_close = ""})});
  return either_call(std::move(choices));
}

std::unique_ptr<CallParser> fenced() {
  std::vector<CallChoice> choices;
  choices.push_back({"{", json_calls({.close = "```", .strict_keys = true})});
  choices.push_back({"", python_calls({.close = "```"})});
  return either_call(std::move(choices));
}

std::unique_ptr<CallParser> python_between_tags() {
  return python_calls({.close = "<|tool_call_end|>"});
}

std::unique_ptr<CallParser> bare_json() { return json_calls({.close = "", .strict_keys = true}); }

std::unique_ptr<CallParser> bare_python() { return python_calls({.close = ""}); }

NamedCallsShape deep_seek() {
  return {.open = "<｜tool▁call▁begin｜>",
          .separators = {"<｜tool▁sep｜>"},
          .id_separator = "",
          .close = "<｜tool▁call▁end｜>",
          .section_close = "<｜tool▁calls▁end｜>"};
}

NamedCallsShape kimi() {
  return {.open = "<|tool_call_begin|>",
          .separators = {"<|tool_call_argument_begin|>"},
          .id_separator = "",
          .close = "<|tool_call_end|>",
          .section_close = "<|tool_calls_section_end|>"};
}

}  // namespace

std::vector<CallOpener> call_openers(ToolFormat format) {
  const CallOpener tool_call{"<tool_call>", between_tool_call_tags};
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kHarmony: return {};
    case ToolFormat::kHermes:
    case ToolFormat::kGlm: return {tool_call};
    case ToolFormat::kQwenCoder:
      return {tool_call, {"<function=", [] { return tag_calls(qwen_coder(/*opened=*/true, "")); }}};
    case ToolFormat::kMiniCpm:
      return {tool_call, {"<function name=\"", [] { return tag_calls(mini_cpm()); }}};
    case ToolFormat::kMiniMax:
      return {{"<minimax:tool_call>", [] { return tag_calls(mini_max()); }}};
    case ToolFormat::kMiniCpm3:
      return {{"<|tool_call_start|>\n```python\n",
               [] { return python_calls({.close = "```\n<|tool_call_end|>"}); }},
              {"<|tool_call_start|>", python_between_tags}};
    case ToolFormat::kDeepSeek:
      return {{"<｜tool▁calls▁begin｜>", [] { return named_calls(deep_seek()); }}};
    case ToolFormat::kKimi:
      return {{"<|tool_calls_section_begin|>", [] { return named_calls(kimi()); }}};
    case ToolFormat::kMistral: return {{"[TOOL_CALLS]", mistral}};
    case ToolFormat::kLlamaJson:
      return {{"<|python_tag|>", bare_json}, {"{", bare_json, true, true}};
    case ToolFormat::kPythonic:
      return {{"<|python_start|>", [] { return python_calls({.close = "<|python_end|>"}); }},
              {"[", bare_python, true, true}};
    case ToolFormat::kOlmo:
      return {{"<function_calls>", [] { return python_calls({.close = "</function_calls>"}); }}};
    case ToolFormat::kGemma3:
      return {{"```tool_code\n", fenced},  {"```tool_call\n", fenced},
              {"```python\n", fenced},     {"```json\n", fenced},
              {"```\n", fenced},           {"[", bare_python, true, true},
              {"{", bare_json, true, true}};
    case ToolFormat::kFunctionGemma:
      return {{"<start_function_call>",
               [] { return gemma_calls({.quote = "<escape>", .close = "<end_function_call>"}); }}};
    case ToolFormat::kGemma4:
      return {{"<|tool_call>",
               [] { return gemma_calls({.quote = "<|\"|>", .close = "<tool_call|>"}); }}};
  }
  return {};
}

}  // namespace tandem
