// Running a parser over a text that is cut somewhere.
#pragma once

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/parsers/output_parser.h"

namespace tandem::test {

using Kind = OutputEvent::Kind;

inline OutputEvent content(std::string text) {
  return {.kind = Kind::kContent, .text = std::move(text), .id = {}};
}
inline OutputEvent reasoning(std::string text) {
  return {.kind = Kind::kReasoning, .text = std::move(text), .id = {}};
}

// The three events of a whole call.
inline OutputEvents call(int index, std::string name, std::string arguments, std::string id = {}) {
  return {{.kind = Kind::kCallBegin, .call = index, .text = std::move(name), .id = std::move(id)},
          {.kind = Kind::kArguments, .call = index, .text = std::move(arguments), .id = {}},
          {.kind = Kind::kCallEnd, .call = index, .text = {}, .id = {}}};
}

inline OutputEvents operator+(OutputEvents a, const OutputEvents& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline OutputEvents operator+(OutputEvents a, OutputEvent b) {
  a.push_back(std::move(b));
  return a;
}

// get_weather(city: string, days: integer), add(a, b: number),
// save(path, text: string, tags: array, meta: object, public: boolean).
inline ToolSet tools() {
  using Json = nlohmann::ordered_json;
  const auto add = [](ToolSet& set, const char* name, const char* properties) {
    set.add(name, Json{{"type", "object"}, {"properties", Json::parse(properties)}});
  };
  ToolSet set;
  add(set, "get_weather", R"({"city": {"type": "string"}, "days": {"type": ["integer", "null"]}})");
  add(set, "add", R"({"a": {"type": "number"}, "b": {"type": "number"}})");
  add(set, "save",
      R"({"path": {"type": "string"}, "text": {"type": "string"}, "tags": {"type": "array"},
          "meta": {"$ref": "#/$defs/m"}, "public": {"type": "boolean"}})");
  set.add("now", nullptr);
  return set;
}

inline OutputParserOptions options(ToolFormat format, bool in_reasoning = false) {
  OutputParserOptions options{.format = {.tools = format}, .tools = tools()};
  if (format == ToolFormat::kGemma4) {
    options.format.think_open = "<|channel>thought";
    options.format.think_close = "<channel|>";
  }
  options.in_reasoning = in_reasoning;
  return options;
}

// The joined events of the pieces.
inline OutputEvents parse_pieces(const OutputParserOptions& options,
                                 const std::vector<std::string_view>& pieces) {
  const auto parser = make_output_parser(options);
  OutputEvents joined;
  const auto take = [&](OutputEvents& events) {
    for (OutputEvent& event : events) append_event(std::move(event), joined);
    events.clear();
  };
  OutputEvents events;
  for (const std::string_view piece : pieces) {
    parser->push(piece, events);
    take(events);
  }
  parser->finish(events);
  take(events);
  return joined;
}

inline OutputEvents parse(const OutputParserOptions& options, std::string_view text) {
  return parse_pieces(options, {text});
}

inline std::string shown(const OutputEvents& events) {
  std::string out;
  for (const OutputEvent& event : events) {
    constexpr const char* kNames[] = {"content", "reasoning", "begin", "arguments", "end"};
    out += std::string(kNames[static_cast<int>(event.kind)]) + "#" + std::to_string(event.call) +
           " [" + event.text + "] " + event.id + "\n";
  }
  return out;
}

}  // namespace tandem::test
