// The parser for gpt-oss, whose output is a row of messages in channels.
// Format: the channel "analysis" is reasoning, a message to functions.NAME a
// call, every other one content.
#pragma once

#include <optional>

#include "text/parsers/event_writer.h"
#include "text/parsers/json_scanner.h"
#include "text/parsers/output_parser.h"
#include "text/utf8.h"

namespace tandem {

class HarmonyParser : public OutputParser {
 public:
  explicit HarmonyParser(OutputParserOptions options) : writer_(std::move(options.tools)) {}

  void push(std::string_view text, OutputEvents& out) override;
  void finish(OutputEvents& out) override;
  bool closed() const override { return closed_; }

 private:
  enum class Mode : uint8_t { kHeader, kReasoning, kContent, kCall };

  void run(bool last);
  void text(std::string_view text);
  void marker(std::string_view marker);
  void begin_message();
  void end_message();
  void say(Mode mode, std::string_view text);
  void arguments(std::string_view text);

  EventWriter writer_;
  Utf8Stream utf8_;
  std::string pending_;
  Mode mode_ = Mode::kContent;
  std::string header_;
  // Between two messages of one kind stands a line feed.
  std::optional<Mode> said_;
  bool new_message_ = false;
  JsonScanner scanner_;
  bool any_argument_ = false;
  bool whole_ = false;  // the arguments are
  bool closed_ = false;
};

}  // namespace tandem
