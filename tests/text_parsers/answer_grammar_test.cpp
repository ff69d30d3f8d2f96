#include "text/parsers/answer_grammar.h"

#include <numeric>

#include "../text/vocabs.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text_parsers/parse.h"

using namespace tandem;
using namespace tandem::test;

namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer instance = Tokenizer::from_gguf(byte_level_vocab());
  return instance;
}

const GrammarCompiler& compiler() {
  static const std::vector<int32_t> eos = {tokenizer().eos_ids().at(0)};
  static const GrammarCompiler instance(tokenizer(), eos);
  return instance;
}

// How many bytes of the text the grammar allows; one more if the text may end there.
size_t allowed(const GrammarText& grammar, std::string_view text) {
  GrammarMatcher matcher = compiler().compile(grammar.kind, grammar.text);
  for (size_t i = 0; i < text.size(); ++i) {
    try {
      matcher.accept(static_cast<unsigned char>(text[i]));
    } catch (const Error&) {
      return i;
    }
  }
  std::vector<uint32_t> bits((tokenizer().vocab_size() + 31) / 32);
  matcher.mask(bits);
  const int32_t eos = tokenizer().eos_ids().at(0);
  return text.size() + (bits[eos / 32] >> (eos % 32) & 1);
}

const std::vector<CallableTool> kTools = {
    {"get_weather",
     R"({"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["C","F"]},)"
     R"("days":{"type":"integer"}},"required":["city"]})"},
    {"now", ""},
};

}  // namespace

TEST_CASE("in every format calls that the grammar allows are calls to the parser") {
  struct Case {
    ToolFormat format;
    std::string text;
  };
  const Case cases[] = {
      {ToolFormat::kHermes,
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
       "{\"city\":\"Bern\"}}\n</tool_call>\n"
       "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
      {ToolFormat::kQwenCoder,
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n"
       "</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>"},
      {ToolFormat::kGlm,
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n</"
       "tool_call>\n"
       "<tool_call>now\n</tool_call>"},
      {ToolFormat::kMiniCpm,
       "<function name=\"get_weather\"><param name=\"city\">Bern</param></function>\n"
       "<function name=\"now\"></function>"},
      {ToolFormat::kMistral,
       "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\":\"Bern\"}}, "
       "{\"name\": \"now\", \"arguments\": {}}]"},
      {ToolFormat::kLlamaJson,
       "{\"name\": \"get_weather\", \"parameters\": {\"city\":\"Bern\"}}; "
       "{\"name\": \"now\", \"parameters\": {}}"},
      {ToolFormat::kPythonic, "[get_weather(city=\"Bern\"), now()]"},
      {ToolFormat::kGemma3, "```tool_code\nget_weather(city=\"Bern\")\nnow()\n```"},
      {ToolFormat::kGemma4,
       "<|tool_call>call:get_weather{city:<|\"|>Bern<|\"|>}<tool_call|>"
       "<|tool_call>call:now{}<tool_call|>"},
      {ToolFormat::kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\":\"Bern\"}"
       "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>"},
  };
  for (const auto& [format, text] : cases) {
    CAPTURE(tool_format_name(format));
    OutputFormat how{.tools = format};
    const auto grammar = call_grammar(how, Thinking::kNone, kTools, {}, tokenizer());
    CHECK(allowed(grammar, text) == text.size() + 1);
    const auto events = parse(options(format), text);
    const auto expected = call(0, "get_weather", R"({"city": "Bern"})") + call(1, "now", "{}");
    REQUIRE(events.size() == expected.size());
    for (size_t i = 0; i < events.size(); ++i) {
      CHECK(events[i].kind == expected[i].kind);
      if (events[i].kind == Kind::kArguments)
        CHECK(nlohmann::json::parse(events[i].text) == nlohmann::json::parse(expected[i].text));
    }
  }
}

TEST_CASE("every format has a grammar that compiles, for plain and for reasoning models") {
  for (const ToolFormat format : all_tool_formats()) {
    if (format == ToolFormat::kNone) continue;
    CAPTURE(tool_format_name(format));
    OutputFormat how{.tools = format};
    for (const Thinking thinking : {Thinking::kNone, Thinking::kMay, Thinking::kBegun})
      for (const bool text : {false, true}) {
        const auto grammar =
            call_grammar(how, thinking, kTools, {.text_allowed = text}, tokenizer());
        CAPTURE(grammar.text);
        CHECK_NOTHROW(compiler().compile(grammar.kind, grammar.text));
      }
  }
}

TEST_CASE("arguments that the schema refuses are not allowed") {
  const OutputFormat how;
  const auto grammar = call_grammar(how, Thinking::kNone, kTools, {}, tokenizer());
  const std::string head = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": ";
  for (const char* rest : {"{\"city\":1", "{\"town\"", "{}", "[", "{\"city\":\"x\",\"unit\":\"K"}) {
    CAPTURE(rest);
    const std::string text = head + rest;
    CHECK(allowed(grammar, text) < text.size());
  }
  CHECK(allowed(grammar, "Hello") == 0);
  CHECK(allowed(grammar, "<tool_call>\n{\"name\": \"rm") < 24);
}

TEST_CASE("with text allowed, what begins a call must go on as one") {
  const OutputFormat how;
  const auto grammar =
      call_grammar(how, Thinking::kNone, kTools, {.text_allowed = true}, tokenizer());
  for (const char* text : {"Hello <b>", "",
                           "I'll look.\n<tool_call>\n{\"name\": \"now\", "
                           "\"arguments\": {}}\n</tool_call>"}) {
    CAPTURE(text);
    CHECK(allowed(grammar, text) == std::string_view(text).size() + 1);
  }
  const std::string bad = "Look.\n<tool_call>\n{\"name\": \"rm";
  CHECK(allowed(grammar, bad) < bad.size());
}

TEST_CASE("reasoning comes before an answer of a form") {
  const OutputFormat how;
  const GrammarText digits{GrammarKind::kRegex, "[0-9]+"};
  const auto may = text_grammar(how, Thinking::kMay, digits, tokenizer());
  CHECK(allowed(may, "<think>any {text}</think>\n42") == 29);
  CHECK(allowed(may, "42") == 3);
  CHECK(allowed(may, "x") == 0);
  const auto begun = text_grammar(how, Thinking::kBegun, digits, tokenizer());
  CHECK(allowed(begun, "hm</think>42") == 13);
  CHECK(allowed(begun, "hm</think>x") == 10);
  CHECK(text_grammar(how, Thinking::kNone, digits, tokenizer()).text == digits.text);
}
