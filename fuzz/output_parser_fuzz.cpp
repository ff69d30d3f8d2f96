// Whatever a model writes, in whatever format: the events do not depend on how
// the text is cut, arguments of whole calls are JSON objects, and without calls
// and reasoning all text is content.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/parsers/output_parser.h"
#include "text/utf8.h"

using namespace tandem;

namespace {

using Kind = OutputEvent::Kind;

void require(bool condition) {
  if (!condition) std::abort();
}

ToolSet tools() {
  const auto schema = nlohmann::ordered_json::parse(
      R"({"properties": {"a": {"type": "number"}, "s": {"type": "string"}, "l": {}}})");
  ToolSet set;
  for (const char* name : {"f", "add"}) set.add(name, schema);
  return set;
}

OutputEvents parse(const OutputParserOptions& options, std::string_view text, size_t piece) {
  const auto parser = make_output_parser(options);
  OutputEvents joined;
  const auto take = [&](OutputEvents events) {
    for (OutputEvent& event : events) append_event(std::move(event), joined);
  };
  for (size_t at = 0; at < text.size(); at += piece) {
    OutputEvents events;
    parser->push(text.substr(at, piece), events);
    take(std::move(events));
  }
  OutputEvents events;
  parser->finish(events);
  take(std::move(events));
  return joined;
}

void check_events(const OutputEvents& events) {
  std::string arguments;
  int call = -1;
  for (const OutputEvent& event : events) {
    if (event.kind == Kind::kCallBegin) {
      require(event.call == ++call);
      arguments.clear();
    }
    if (event.kind == Kind::kArguments) arguments += event.text;
    if (event.kind == Kind::kCallEnd)
      require(nlohmann::json::parse(arguments, nullptr, false).is_object());
  }
}

void check_plain(const OutputEvents& events, std::string_view text) {
  std::string all;
  for (const OutputEvent& event : events) {
    if (event.kind != Kind::kContent) return;
    all += event.text;
  }
  Utf8Stream stream;
  std::string expected;
  stream.push(text, expected);
  stream.flush(expected);
  // Tags without text between them, and white space beside them, are no text.
  if (expected.find("think>") != std::string::npos) return;
  require(all == expected);
}

}  // namespace

// The first byte chooses the format, the second the size of the pieces.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto& formats = all_tool_formats();
  OutputParserOptions options{.format = {.tools = formats[data[0] % formats.size()]},
                              .tools = tools()};
  options.in_reasoning = data[0] >= 128;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const OutputEvents whole = parse(options, text, std::max<size_t>(text.size(), 1));
  require(whole == parse(options, text, 1));
  require(whole == parse(options, text, 1 + data[1] % 16));
  check_events(whole);
  if (!options.in_reasoning && options.format.tools != ToolFormat::kHarmony)
    check_plain(whole, text);
  return 0;
}
