#include "text/parsers/output_format.h"

#include "text_parsers/parse.h"

using namespace tandem;

TEST_CASE("a chat template shows its format") {
  const auto tools = [](std::string_view source, std::string_view type = "llama") {
    return detect_output_format(source, type).tools;
  };
  CHECK(tools("... <tool_call>\\n{\"name\": ...") == ToolFormat::kHermes);
  CHECK(tools("<tool_call>\\n<function=x>") == ToolFormat::kQwenCoder);
  CHECK(tools("<tool_call>{{ name }}<arg_key>") == ToolFormat::kGlm);
  CHECK(tools("{{ '[TOOL_CALLS]' }}") == ToolFormat::kMistral);
  CHECK(tools("<|tool_call>call:") == ToolFormat::kGemma4);
  CHECK(tools("<|start|>assistant<|channel|>final<|message|>") == ToolFormat::kHarmony);
  CHECK(tools("Environment: ipython") == ToolFormat::kLlamaJson);
  CHECK(tools("{{ messages }}", "gemma3_text") == ToolFormat::kGemma3);
  CHECK(tools("{{ messages }}") == ToolFormat::kHermes);
  CHECK(detect_output_format("[TOOL_CALLS]", "", ToolFormat::kPythonic).tools ==
        ToolFormat::kPythonic);
}

TEST_CASE("a chat template shows its tags of reasoning") {
  const auto open = [](std::string_view source) {
    return detect_output_format(source, "").think_open;
  };
  CHECK(open("") == "<think>");
  CHECK(open("[TOOL_CALLS][THINK]") == "[THINK]");
  CHECK(open("<seed:think>") == "<seed:think>");
  CHECK(open("<think> <reasoning>") == "<think>");
  CHECK(open("<|tool_call>") == "<|channel>thought");
  CHECK(open("<|channel|>") == "");
}

TEST_CASE("a prompt that ends behind the opening tag has begun the reasoning") {
  const OutputFormat format;
  CHECK(ends_in_reasoning(format, "<|im_start|>assistant\n<think>\n"));
  CHECK_FALSE(ends_in_reasoning(format, "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  CHECK_FALSE(ends_in_reasoning(format, "user: <think><|im_end|>"));
}

TEST_CASE("each format has a name that leads back to it") {
  for (const ToolFormat format : all_tool_formats())
    CHECK(tool_format_of(tool_format_name(format)) == format);
  CHECK_FALSE(tool_format_of("morse"));
}
