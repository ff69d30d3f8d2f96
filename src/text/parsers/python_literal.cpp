#include "text/parsers/python_literal.h"

#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

constexpr int kDepthMax = 64;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void append_utf8(uint32_t code, std::string& out) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
  } else if (code < 0x10000) {
    out += {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
            static_cast<char>(0x80 | (code & 0x3F))};
  } else {
    out += {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3F)),
            static_cast<char>(0x80 | (code >> 6 & 0x3F)), static_cast<char>(0x80 | (code & 0x3F))};
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // False when the text is no literal.
  bool value(std::string& out, int depth = 0) {
    skip_space();
    if (at_ == text_.size() || depth > kDepthMax) return false;
    const char c = text_[at_];
    if (c == '[') return items(']', out, depth);
    if (c == '(') return items(')', out, depth);
    if (c == '{') return entries(out, depth);
    if (is_string_start()) {
      std::string text;
      if (!strings(text)) return false;
      out += json_string(text);
      return true;
    }
    return scalar(out);
  }

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
  }

  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool items(char close, std::string& out, int depth) {
    ++at_;
    out += '[';
    for (bool first = true; !take(close); first = false) {
      if (!first && (!take(',') || take(close))) return close_after_comma(close, out);
      if (!first) out += ", ";
      if (!value(out, depth + 1)) return false;
    }
    out += ']';
    return true;
  }

  // A comma may stand before the bracket; anything else there is wrong.
  bool close_after_comma(char close, std::string& out) {
    if (text_[at_ - 1] != close) return false;
    out += close == '}' ? '}' : ']';
    return true;
  }

  bool entries(std::string& out, int depth) {
    ++at_;
    out += '{';
    for (bool first = true; !take('}'); first = false) {
      if (!first && (!take(',') || take('}'))) return close_after_comma('}', out);
      if (!first) out += ", ";
      if (!key(out, depth) || !take(':')) return false;
      out += ": ";
      if (!value(out, depth + 1)) return false;
    }
    out += '}';
    return true;
  }

  bool key(std::string& out, int depth) {
    std::string key;
    if (!value(key, depth + 1) || key.starts_with('[') || key.starts_with('{')) return false;
    out += key.starts_with('"') ? key : json_string(key);
    return true;
  }

  bool is_string_start() const {
    size_t i = at_;
    while (i < text_.size() && i < at_ + 2 && std::string_view("rRbBuU").find(text_[i]) < 6) ++i;
    return i < text_.size() && (text_[i] == '"' || text_[i] == '\'');
  }

  // Strings beside each other are one.
  bool strings(std::string& out) {
    do {
      if (!string(out)) return false;
      skip_space();
    } while (at_ < text_.size() && is_string_start());
    return true;
  }

  bool string(std::string& out) {
    bool raw = false;
    for (; text_[at_] != '"' && text_[at_] != '\''; ++at_) raw |= (text_[at_] | 0x20) == 'r';
    const std::string_view rest = text_.substr(at_);
    const std::string quote(rest.starts_with("\"\"\"") || rest.starts_with("'''") ? 3 : 1, rest[0]);
    at_ += quote.size();
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with(quote)) {
        at_ += quote.size();
        return true;
      }
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        out += text_[at_++];
      } else if (raw) {
        out.append(text_.substr(at_, 2));
        at_ += 2;
      } else {
        escape(out);
      }
    }
    return false;
  }

  void escape(std::string& out) {
    const char c = text_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 'n': out += '\n'; return;
      case 't': out += '\t'; return;
      case 'r': out += '\r'; return;
      case 'b': out += '\b'; return;
      case 'f': out += '\f'; return;
      case '0': out += '\0'; return;
      case '\n': return;
      case 'x': append_utf8(hex(2), out); return;
      case 'u': append_utf8(surrogates(hex(4)), out); return;
      case 'U': append_utf8(hex(8), out); return;
      case '\\':
      case '\'':
      case '"': out += c; return;
      default: out += {'\\', c}; return;
    }
  }

  uint32_t hex(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits && at_ < text_.size(); ++i, ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'                     ? c - '0'
                        : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                 : -1;
      if (digit < 0) break;
      code = code * 16 + digit;
    }
    return code;
  }

  // Models write characters beyond U+FFFF as JSON does.
  uint32_t surrogates(uint32_t high) {
    if (high < 0xD800 || high >= 0xDC00 || !text_.substr(at_).starts_with("\\u")) return high;
    const size_t before = at_;
    at_ += 2;
    const uint32_t low = hex(4);
    if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    at_ = before;
    return high;
  }

  bool scalar(std::string& out) {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (is_word(text_[at_]) || text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (word == "None" || word == "null")
      word = "null";
    else if (word == "True")
      word = "true";
    else if (word == "False")
      word = "false";
    else if (word != "true" && word != "false" && !number(word))
      return false;
    out += word;
    return true;
  }

  static bool number(std::string& word) {
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    if (word.starts_with('.')) word = '0' + word;
    if (word.ends_with('.')) word += '0';
    return is_json_number(word);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string> python_to_json(std::string_view text) {
  Reader reader(text);
  std::string out;
  if (!reader.value(out) || !reader.at_end()) return {};
  return out;
}

bool PythonScanner::ends_before(char c) {
  if (quote_ != 0 && in_string(c)) return false;
  if (c == '"' || c == '\'') {
    quote(c);
    return false;
  }
  if (c == '[' || c == '(' || c == '{') ++depth_;
  if (c != ']' && c != ')' && c != '}') return c == ',' && depth_ == 0;
  return --depth_ < 0;
}

void PythonScanner::quote(char c) {
  quote_ = c;
  quotes_ = 1;
  opening_ = true;
  triple_ = false;
}

// False if `c` is outside: it shows that the string was an empty one.
bool PythonScanner::in_string(char c) {
  if (opening_) {
    if (c == quote_) {
      if (++quotes_ == 3) {
        triple_ = true;
        opening_ = false;
        quotes_ = 0;
      }
      return true;
    }
    opening_ = false;
    const bool empty = quotes_ == 2;
    quotes_ = 0;
    if (empty) {
      quote_ = 0;
      return false;
    }
  }
  if (escaped_) {
    escaped_ = false;
    return true;
  }
  escaped_ = c == '\\';
  quotes_ = c == quote_ ? quotes_ + 1 : 0;
  if (quotes_ == (triple_ ? 3 : 1)) quote_ = 0;
  return true;
}

}  // namespace tandem
