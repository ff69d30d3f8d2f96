#include "text/parsers/output_parser.h"

#include "base/rng.h"
#include "text_parsers/transcripts.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("every transcript means what it says") {
  for (const Transcript& t : transcripts()) {
    CAPTURE(t.what);
    const OutputEvents events = parse(options(t.format, t.in_reasoning), t.text);
    CHECK(shown(events) == shown(t.events));
  }
}

TEST_CASE("a text cut in two at any byte means the same") {
  for (const Transcript& t : transcripts()) {
    const auto how = options(t.format, t.in_reasoning);
    const std::string_view text = t.text;
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      const auto events = parse_pieces(how, {text.substr(0, cut), text.substr(cut)});
      if (events == t.events) continue;
      CAPTURE(t.what);
      CAPTURE(cut);
      CHECK(shown(events) == shown(t.events));
      break;
    }
  }
}

TEST_CASE("a text in single bytes or random pieces means the same") {
  uint64_t draw = 0;
  for (const Transcript& t : transcripts()) {
    const auto how = options(t.format, t.in_reasoning);
    for (int round = 0; round < 40; ++round) {
      const uint64_t longest = round == 0 ? 1 : 1 + round % 12;
      std::vector<std::string_view> pieces;
      for (std::string_view rest = t.text; !rest.empty();) {
        const size_t size = std::min<size_t>(
            rest.size(), 1 + static_cast<size_t>(uniform_draw(1, 0, ++draw) * longest));
        pieces.push_back(rest.substr(0, size));
        rest.remove_prefix(size);
      }
      const auto events = parse_pieces(how, pieces);
      if (events == t.events) continue;
      CAPTURE(t.what);
      CAPTURE(round);
      CHECK(shown(events) == shown(t.events));
      break;
    }
  }
}

TEST_CASE("every format has transcripts with calls and with text alone") {
  for (const ToolFormat format : all_tool_formats()) {
    if (format == ToolFormat::kNone) continue;
    CAPTURE(tool_format_name(format));
    bool calls = false;
    for (const Transcript& t : transcripts())
      for (const OutputEvent& event : t.events)
        calls |= t.format == format && event.kind == Kind::kCallEnd;
    CHECK(calls);
  }
}

TEST_CASE("without tools every call is plain text, and reasoning is still told apart") {
  auto how = options(ToolFormat::kHermes);
  how.tools = {};
  const std::string call = R"(<tool_call>{"name": "add", "arguments": {}}</tool_call>)";
  CHECK(parse(how, "<think>a</think>" + call) == OutputEvents{reasoning("a"), content(call)});
}

TEST_CASE("behind the last call that is allowed nothing comes any more") {
  auto how = options(ToolFormat::kHermes);
  how.tools.calls_max = 1;
  const auto parser = make_output_parser(how);
  OutputEvents events;
  parser->push(R"(<tool_call>{"name": "add", "arguments": {}})", events);
  CHECK(parser->closed());
  parser->push("</tool_call><tool_call>{\"name\": \"now\"}</tool_call> and so on", events);
  parser->finish(events);
  CHECK(shown(events) == shown(call(0, "add", "{}")));
}

TEST_CASE("arguments come in pieces, before the call is whole") {
  const auto parser = make_output_parser(options(ToolFormat::kHermes));
  OutputEvents events;
  parser->push(R"(<tool_call>{"name": "save", "arguments": {"text": "long)", events);
  CHECK(events.back().text == R"({"text": "long)");
  parser->push(" story", events);
  CHECK(events.back().text == R"({"text": "long story)");
}

TEST_CASE("many openings that are none take linear time and stay text") {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += R"(<tool_call>{"arguments": {"x": ")";
  const auto events = parse(options(ToolFormat::kHermes), text);
  CHECK(events == OutputEvents{content(text)});
}
