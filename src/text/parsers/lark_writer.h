// Rules in llguidance's variant of Lark, with control tokens as their ids.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/parsers/output_format.h"

namespace tandem {

class Tokenizer;

class LarkWriter {
 public:
  LarkWriter(const OutputFormat& format, const Tokenizer& tokenizer);

  // An expression for exactly this text; the model's control tokens in it are these.
  std::string spell(std::string_view text) const;
  // An expression for any text up to `close` and this.
  std::string until(const std::string& close);
  bool is_control(std::string_view text) const;

  void rule(const std::string& name, const std::string& body);
  std::string take() { return std::move(rules_); }

 private:
  struct Marker {
    std::string text;
    int32_t id;
  };

  std::vector<Marker> control_;
  std::string rules_;
  int untils_ = 0;
};

// The regular expression for exactly this text.
std::string escaped_regex(std::string_view text);

// Any text, without control tokens.
inline constexpr const char* kAnyText = R"(/(.|\n)*/)";

}  // namespace tandem
