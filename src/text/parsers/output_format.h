// How a model marks its reasoning and its calls of tools: found out from its
// chat template, once, when it is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

enum class ToolFormat : uint8_t {
  kNone,
  kHermes,         // <tool_call>{"name": ..., "arguments": {...}}</tool_call>
  kQwenCoder,      // <function=NAME><parameter=KEY>VALUE</parameter></function>
  kGlm,            // <tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>
  kMiniCpm,        // <function name="N"><param name="K">V</param></function>
  kMiniCpm3,       // Python calls between <|tool_call_start|> and <|tool_call_end|>
  kMiniMax,        // <invoke name="N"><parameter name="K">V</parameter></invoke>
  kDeepSeek,       // V3 and V3.1: tokens around names and JSON
  kKimi,           // the same with other tokens
  kMistral,        // [TOOL_CALLS][{...}] and [TOOL_CALLS]NAME[ARGS]{...}
  kLlamaJson,      // {"name": ..., "parameters": {...}}
  kPythonic,       // [name(key=value), ...]
  kOlmo,           // the same on lines between <function_calls> tags
  kGemma3,         // fenced blocks of Python or JSON
  kFunctionGemma,  // <start_function_call>call:NAME{...}<end_function_call>
  kGemma4,         // <|tool_call>call:NAME{...}<tool_call|>
  kHarmony,        // channels of gpt-oss, for reasoning too
};

const char* tool_format_name(ToolFormat format);
std::optional<ToolFormat> tool_format_of(std::string_view name);
const std::vector<ToolFormat>& all_tool_formats();

struct OutputFormat {
  ToolFormat tools = ToolFormat::kHermes;
  std::string think_open = "<think>";  // both empty: no reasoning
  std::string think_close = "</think>";
  bool thinks = false;  // the template knows of reasoning
};

// From the template's text and config.json's model_type. `forced`, if given,
// decides about tools in its place.
OutputFormat detect_output_format(std::string_view chat_template, std::string_view model_type,
                                  std::optional<ToolFormat> forced = {});

// All texts that the parser of the format looks for. Those that are control
// tokens of the model must show in the text that it gets.
std::vector<std::string> marker_texts(const OutputFormat& format);

// A prompt that ends here has begun the reasoning.
bool ends_in_reasoning(const OutputFormat& format, std::string_view prompt_end);
// A prompt that ends here has begun and ended it: there will be none.
bool ends_behind_reasoning(const OutputFormat& format, std::string_view prompt_end);

}  // namespace tandem
