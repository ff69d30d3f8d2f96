#include "text/utf8.h"

namespace tandem {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (missing_ == 0) {
      start(byte, out);
    } else if (byte < low_ || byte > high_) {
      flush(out);
      start(byte, out);
    } else {
      held_ += c;
      low_ = 0x80;
      high_ = 0xBF;
      if (--missing_ == 0) {
        out += held_;
        held_.clear();
      }
    }
  }
}

void Utf8Stream::flush(std::string& out) {
  if (missing_ > 0) out += kReplacement;
  held_.clear();
  missing_ = 0;
  low_ = 0x80;
  high_ = 0xBF;
}

// Table 3-7 of the Unicode standard: well-formed sequences.
void Utf8Stream::start(unsigned char byte, std::string& out) {
  if (byte < 0x80) {
    out += static_cast<char>(byte);
    return;
  }
  if (byte < 0xC2 || byte > 0xF4) {
    out += kReplacement;
    return;
  }
  held_ = static_cast<char>(byte);
  missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  if (byte == 0xE0) low_ = 0xA0;
  if (byte == 0xED) high_ = 0x9F;
  if (byte == 0xF0) low_ = 0x90;
  if (byte == 0xF4) high_ = 0x8F;
}

}  // namespace tandem
