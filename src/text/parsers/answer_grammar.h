// One grammar for a whole answer: what the model may think first, then text of a
// given form, or calls of tools in the model's own format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/grammar.h"
#include "text/parsers/output_format.h"

namespace tandem {

class Tokenizer;

enum class Thinking : uint8_t {
  kNone,
  kMay,    // the model may begin with it
  kBegun,  // the prompt has begun it
};

// A tool that may be called; `parameters` is the JSON text of its schema, or empty.
struct CallableTool {
  std::string name;
  std::string parameters;
  bool checked = true;  // its arguments follow the schema; else any object
};

struct GrammarText {
  GrammarKind kind = GrammarKind::kLark;
  std::string text;
};

// The text `body` alone, behind the reasoning.
GrammarText text_grammar(const OutputFormat& format, Thinking thinking, const GrammarText& body,
                         const Tokenizer& tokenizer);

struct CallRules {
  bool text_allowed = false;        // in place of calls, and before them
  bool several = true;              // calls
  std::optional<GrammarText> form;  // what the text must be like: then none before calls
};

// Calls of `tools` (one or more), behind the reasoning. Throws Error(kUnsupported)
// for ToolFormat::kNone.
GrammarText call_grammar(const OutputFormat& format, Thinking thinking,
                         const std::vector<CallableTool>& tools, const CallRules& rules,
                         const Tokenizer& tokenizer);

}  // namespace tandem
