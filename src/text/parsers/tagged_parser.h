// The parser for formats with reasoning between two tags and calls of tools
// behind an opening text of theirs.
#pragma once

#include <functional>

#include "text/parsers/event_writer.h"
#include "text/parsers/output_parser.h"
#include "text/utf8.h"

namespace tandem {

// A text that begins a call.
struct CallOpener {
  std::string text;
  std::function<std::unique_ptr<CallParser>()> make;
  bool only_first = false;  // with nothing but white space and calls before it
  bool replayed = false;    // the parser reads the text as well
};

std::vector<CallOpener> call_openers(ToolFormat format);

class TaggedParser : public OutputParser {
 public:
  explicit TaggedParser(OutputParserOptions options);

  void push(std::string_view text, OutputEvents& out) override;
  void finish(OutputEvents& out) override;
  bool closed() const override { return mode_ == Mode::kClosed; }

 private:
  enum class Mode : uint8_t { kContent, kReasoning, kCall, kClosed };

  // What begins at a place of the text.
  struct Found {
    const CallOpener* opener = nullptr;  // null with size > 0: reasoning
    size_t size = 0;
    bool may_follow = false;  // more text could make it one
  };

  void run(bool last);
  // Each consumes what it can of pending_. False: more text is needed.
  bool read_content(bool last);
  bool read_reasoning(bool last);
  bool read_call(bool last);

  Found look(size_t place, bool first, bool last) const;
  void begin(const Found& found);
  void not_a_call();
  void skip_space();

  EventWriter writer_;
  OutputFormat format_;
  std::vector<CallOpener> openers_;
  std::string starts_;  // first bytes of all openers
  Utf8Stream utf8_;
  std::string pending_;  // from at_ on not yet read
  size_t at_ = 0;
  Mode mode_ = Mode::kContent;
  bool first_ = true;  // no content since the start, the reasoning or a call
  bool skips_space_ = false;
  size_t opener_size_ = 0;  // bytes at the start of what is unsure that open the call
  int failures_ = 0;
  std::unique_ptr<CallParser> call_;
};

}  // namespace tandem
