// What a model's text turns out to be: answer, reasoning, or calls of tools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

struct OutputEvent {
  enum class Kind : uint8_t {
    kContent,    // a piece of the answer
    kReasoning,  // a piece of what the model thinks
    kCallBegin,  // text is the tool's name
    kArguments,  // a piece of the call's arguments, JSON text
    kCallEnd,    // the arguments are a whole JSON object
  };

  Kind kind = Kind::kContent;
  int call = -1;     // 0, 1, ... for what belongs to a call
  std::string text;  // whole UTF-8 characters
  std::string id;    // of kCallBegin: the id that the model gave, mostly none

  bool operator==(const OutputEvent&) const = default;
};

using OutputEvents = std::vector<OutputEvent>;

}  // namespace tandem
