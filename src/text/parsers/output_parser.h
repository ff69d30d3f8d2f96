// A model's text, as it is generated, to answer, reasoning and calls of tools.
//
// The events do not depend on how the text is cut: joined, they are the same
// for every cut, even inside of a character. Text belongs to exactly one event,
// or to the tags and the white space beside them. What does not parse is
// content: a call of an unknown tool, or one that breaks before its arguments
// begin. Arguments are passed on as they come; where they break, the rest is
// content, and the call has no kCallEnd.
#pragma once

#include <memory>
#include <string_view>

#include "text/parsers/output_event.h"
#include "text/parsers/output_format.h"
#include "text/parsers/tool_set.h"

namespace tandem {

struct OutputParserOptions {
  OutputFormat format;
  ToolSet tools;              // none: no call is looked for
  bool in_reasoning = false;  // the prompt has begun the reasoning
};

// One thread at a time.
class OutputParser {
 public:
  virtual ~OutputParser() = default;

  // Appends what `text` makes certain.
  virtual void push(std::string_view text, OutputEvents& out) = 0;
  // The text has ended.
  virtual void finish(OutputEvents& out) = 0;
  // What comes from now on is dropped: ToolSet::calls_max is reached.
  virtual bool closed() const = 0;
};

std::unique_ptr<OutputParser> make_output_parser(OutputParserOptions options);

// Appends, joining pieces of the same thing.
void append_event(OutputEvent event, OutputEvents& out);

}  // namespace tandem
