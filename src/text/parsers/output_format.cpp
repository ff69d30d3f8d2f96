#include "text/parsers/output_format.h"

#include <algorithm>

#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

struct Row {
  ToolFormat format;
  const char* name;
  // Texts of which any in a chat template shows the format. Rows are asked in order.
  std::vector<const char*> signs;
  std::vector<const char*> markers;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {ToolFormat::kHarmony,
       "harmony",
       {"<|channel|>"},
       {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>",
        "<|return|>"}},
      {ToolFormat::kGemma4, "gemma4", {"<|tool_call>"}, {"<|tool_call>", "<tool_call|>", "<|\"|>"}},
      {ToolFormat::kFunctionGemma,
       "function-gemma",
       {"<start_function_call>"},
       {"<start_function_call>", "<end_function_call>", "<escape>"}},
      {ToolFormat::kDeepSeek,
       "deepseek",
       {"<｜tool▁calls▁begin｜>"},
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"}},
      {ToolFormat::kKimi,
       "kimi",
       {"<|tool_calls_section_begin|>"},
       {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
        "<|tool_call_end|>", "<|tool_calls_section_end|>"}},
      {ToolFormat::kMistral,
       "mistral",
       {"[TOOL_CALLS]"},
       {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[/TOOL_CALLS]"}},
      {ToolFormat::kGlm,
       "glm",
       {"<arg_key>"},
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}},
      {ToolFormat::kMiniMax,
       "minimax",
       {"<minimax:tool_call>"},
       {"<minimax:tool_call>", "</minimax:tool_call>"}},
      {ToolFormat::kMiniCpm, "minicpm", {"<function name=", "<param name="}, {}},
      {ToolFormat::kQwenCoder, "qwen3-coder", {"<function="}, {"<tool_call>", "</tool_call>"}},
      {ToolFormat::kMiniCpm3,
       "minicpm3",
       {"<|tool_call_start|>"},
       {"<|tool_call_start|>", "<|tool_call_end|>"}},
      {ToolFormat::kHermes, "hermes", {"<tool_call>"}, {"<tool_call>", "</tool_call>"}},
      {ToolFormat::kOlmo, "olmo", {"<function_calls>"}, {"<function_calls>", "</function_calls>"}},
      {ToolFormat::kPythonic,
       "pythonic",
       {"<|python_start|>", "[func_name1(", "[func1("},
       {"<|python_start|>", "<|python_end|>"}},
      {ToolFormat::kLlamaJson,
       "llama3-json",
       {"<|python_tag|>", "Environment: ipython"},
       {"<|python_tag|>"}},
      {ToolFormat::kGemma3, "gemma3", {"tool_code"}, {}},
      {ToolFormat::kNone, "none", {}, {}},
  };
  return kRows;
}

const Row& row_of(ToolFormat format) {
  return *std::find_if(rows().begin(), rows().end(),
                       [&](const Row& row) { return row.format == format; });
}

// What the template does not tell: families whose templates know no tools.
ToolFormat by_model_type(std::string_view type) {
  if (type.starts_with("gemma4")) return ToolFormat::kGemma4;
  if (type.starts_with("gemma3")) return ToolFormat::kGemma3;
  if (type == "gpt_oss") return ToolFormat::kHarmony;
  return ToolFormat::kHermes;
}

ToolFormat detect_tools(std::string_view source, std::string_view model_type) {
  for (const Row& row : rows())
    for (const char* sign : row.signs)
      if (source.find(sign) != std::string_view::npos) return row.format;
  return by_model_type(model_type);
}

}  // namespace

const char* tool_format_name(ToolFormat format) { return row_of(format).name; }

std::optional<ToolFormat> tool_format_of(std::string_view name) {
  for (const Row& row : rows())
    if (row.name == name) return row.format;
  return {};
}

const std::vector<ToolFormat>& all_tool_formats() {
  static const std::vector<ToolFormat> kAll = [] {
    std::vector<ToolFormat> all;
    for (const Row& row : rows()) all.push_back(row.format);
    return all;
  }();
  return kAll;
}

OutputFormat detect_output_format(std::string_view source, std::string_view model_type,
                                  std::optional<ToolFormat> forced) {
  OutputFormat format;
  format.tools = forced ? *forced : detect_tools(source, model_type);
  constexpr std::pair<const char*, const char*> kTags[] = {
      {"<|channel>thought", "<channel|>"},
      {"[THINK]", "[/THINK]"},
      {"<seed:think>", "</seed:think>"},
      {"<|thought_start|>", "<|thought_end|>"},
      {"<|START_THINKING|>", "<|END_THINKING|>"},
      {"<thinking>", "</thinking>"},
      {"<reasoning>", "</reasoning>"},
  };
  const auto holds = [&](std::string_view text) {
    return source.find(text) != std::string_view::npos;
  };
  if (format.tools == ToolFormat::kHarmony) {
    format.think_open = format.think_close = "";
    format.thinks = true;
    return format;
  }
  if (format.tools == ToolFormat::kGemma4) {
    format.think_open = kTags[0].first;
    format.think_close = kTags[0].second;
  }
  format.thinks = holds("<think>") || holds("</think>");
  if (format.thinks) return format;
  for (const auto& [open, close] : kTags) {
    if (!holds(open) && !holds(close)) continue;
    format.think_open = open;
    format.think_close = close;
    format.thinks = true;
    return format;
  }
  return format;
}

std::vector<std::string> marker_texts(const OutputFormat& format) {
  const std::vector<const char*>& of_tools = row_of(format.tools).markers;
  std::vector<std::string> texts(of_tools.begin(), of_tools.end());
  for (const std::string& text : {format.think_open, format.think_close})
    if (!text.empty()) texts.push_back(text);
  // The token of <|channel>thought.
  if (format.think_open.starts_with("<|channel>")) texts.push_back("<|channel>");
  return texts;
}

bool ends_in_reasoning(const OutputFormat& format, std::string_view prompt_end) {
  const std::string_view text = trimmed(prompt_end);
  return !format.think_open.empty() && text.ends_with(format.think_open);
}

bool ends_behind_reasoning(const OutputFormat& format, std::string_view prompt_end) {
  return !format.think_close.empty() && trimmed(prompt_end).ends_with(format.think_close);
}

}  // namespace tandem
