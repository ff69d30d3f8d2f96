// Literals of Python as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// The JSON text of one literal: None, True, False (and their JSON names),
// numbers, strings of every quoting, lists, tuples and dicts of literals. None
// if the text is anything else.
std::optional<std::string> python_to_json(std::string_view text);

// Finds where a literal ends that arrives a byte at a time: at the first comma
// or closing bracket that is outside of strings and brackets.
class PythonScanner {
 public:
  // True if `c` is behind the literal.
  bool ends_before(char c);

 private:
  void quote(char c);
  bool in_string(char c);

  int depth_ = 0;
  char quote_ = 0;  // of the string we are in
  int quotes_ = 0;  // equal quotes seen in a row
  bool triple_ = false;
  bool opening_ = false;  // whether the string is empty or triple is not known yet
  bool escaped_ = false;
};

}  // namespace tandem
