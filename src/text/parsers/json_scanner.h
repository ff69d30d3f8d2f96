// JSON text that arrives a byte at a time, checked as it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// One JSON value. Raw control characters inside strings, which models write,
// are passed on escaped, so that what comes out is valid.
class JsonScanner {
 public:
  enum class State : uint8_t { kMore, kDone, kBad };

  // Appends what the byte stands for to `out`. Numbers at the top end with the
  // byte behind them, which is kBad here: give objects, arrays or strings.
  State feed(char c, std::string& out);

  bool in_string() const { return in_string_; }

 private:
  enum class Want : uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };

  State structure(char c);
  State open(char c);
  State close(char c);
  State string_byte(char c, std::string& out);
  bool scalar_byte(char c);
  bool scalar_whole() const;
  State value_done();

  std::vector<char> open_;  // '{' and '['
  Want want_ = Want::kValue;
  bool in_string_ = false;
  bool is_key_ = false;
  bool escaped_ = false;
  int hex_left_ = 0;
  std::string scalar_;  // a number or a literal that is not yet ended
};

bool is_json_space(char c);

// Whole texts.
// The value as valid JSON text; none if the text is no JSON.
std::optional<std::string> checked_json(std::string_view text);
bool is_json_number(std::string_view text);
std::string_view trimmed(std::string_view text);  // without JSON's white space around it

// Appends a byte of a string as JSON writes it, without quotes.
void append_json_escaped(char c, std::string& out);
std::string json_string(std::string_view text);

}  // namespace tandem
