// UTF-8 that arrives in pieces cut anywhere.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Turns bytes into valid UTF-8. An incomplete sequence at the end is held
// until the next bytes decide. Each maximal invalid part becomes one U+FFFD
// (Unicode 15, section 3.9, "substitution of maximal subparts").
// One thread at a time.
class Utf8Stream {
 public:
  // Appends to `out` all text that `bytes` makes certain.
  void push(std::string_view bytes, std::string& out);

  // Appends U+FFFD for an incomplete sequence, and starts anew.
  void flush(std::string& out);

 private:
  void start(unsigned char byte, std::string& out);

  std::string held_;                        // a valid beginning of a sequence
  int missing_ = 0;                         // bytes it still needs
  unsigned char low_ = 0x80, high_ = 0xBF;  // allowed range of the next byte
};

}  // namespace tandem
