// Outputs of models, as they are and broken, with what they mean.
#pragma once

#include "text_parsers/parse.h"

namespace tandem::test {

struct Transcript {
  const char* what;
  ToolFormat format;
  std::string text;
  OutputEvents events;
  bool in_reasoning = false;
};

// Of all formats; the text of each is new for each call.
std::vector<Transcript> transcripts();

}  // namespace tandem::test
