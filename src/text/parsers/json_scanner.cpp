#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

constexpr size_t kDepthMax = 128;
constexpr size_t kScalarMax = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool is_literal(std::string_view text) {
  return text == "true" || text == "false" || text == "null";
}

}  // namespace

bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool is_json_number(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i > begin;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const size_t first = i;
  if (!digits() || (text[first] == '0' && i > first + 1)) return false;
  if (i < text.size() && text[i] == '.' && (++i, !digits())) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

std::optional<std::string> checked_json(std::string_view text) {
  text = trimmed(text);
  if (is_literal(text) || is_json_number(text)) return std::string(text);
  JsonScanner scanner;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::State state = scanner.feed(text[i], out);
    if (state == JsonScanner::State::kBad) break;
    if (state == JsonScanner::State::kMore) continue;
    return i + 1 == text.size() ? std::optional(out) : std::nullopt;
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

void append_json_escaped(char c, std::string& out) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20) {
    out += c;
    return;
  }
  constexpr char kHex[] = "0123456789abcdef";
  out += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) append_json_escaped(c, out);
  return out + '"';
}

JsonScanner::State JsonScanner::feed(char c, std::string& out) {
  if (in_string_) return string_byte(c, out);
  if (!scalar_.empty()) {
    if (scalar_byte(c)) {
      out += c;
      return State::kMore;
    }
    if (!scalar_whole()) return State::kBad;
    scalar_.clear();
    if (value_done() == State::kDone) return State::kBad;
  }
  const State state = is_json_space(c) ? State::kMore : structure(c);
  if (state != State::kBad) out += c;
  return state;
}

JsonScanner::State JsonScanner::structure(char c) {
  switch (want_) {
    case Want::kValueOrEnd:
      if (c == ']') return close(c);
      [[fallthrough]];
    case Want::kValue: return open(c);
    case Want::kKeyOrEnd:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Want::kKey:
      in_string_ = is_key_ = c == '"';
      return in_string_ ? State::kMore : State::kBad;
    case Want::kColon: want_ = Want::kValue; return c == ':' ? State::kMore : State::kBad;
    case Want::kCommaOrEnd:
      if (c != ',') return close(c);
      want_ = open_.back() == '{' ? Want::kKey : Want::kValue;
      return State::kMore;
  }
  return State::kBad;
}

JsonScanner::State JsonScanner::open(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kDepthMax) return State::kBad;
    open_.push_back(c);
    want_ = c == '{' ? Want::kKeyOrEnd : Want::kValueOrEnd;
    return State::kMore;
  }
  if (c == '"') {
    in_string_ = true;
    is_key_ = false;
    return State::kMore;
  }
  return scalar_byte(c) ? State::kMore : State::kBad;
}

JsonScanner::State JsonScanner::close(char c) {
  if (open_.empty() || c != (open_.back() == '{' ? '}' : ']')) return State::kBad;
  open_.pop_back();
  return value_done();
}

JsonScanner::State JsonScanner::value_done() {
  want_ = Want::kCommaOrEnd;
  return open_.empty() ? State::kDone : State::kMore;
}

JsonScanner::State JsonScanner::string_byte(char c, std::string& out) {
  if (hex_left_ > 0) {
    --hex_left_;
    out += c;
    return is_hex(c) ? State::kMore : State::kBad;
  }
  if (escaped_) {
    escaped_ = false;
    if (c == 'u') hex_left_ = 4;
    out += c;
    return std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos ? State::kMore
                                                                             : State::kBad;
  }
  if (c == '\\') {
    escaped_ = true;
    out += c;
    return State::kMore;
  }
  if (c != '"') {
    append_json_escaped(c, out);
    return State::kMore;
  }
  out += c;
  in_string_ = false;
  if (!is_key_) return value_done();
  want_ = Want::kColon;
  return State::kMore;
}

// Bytes of numbers and literals; whether they make one is seen at their end.
bool JsonScanner::scalar_byte(char c) {
  const bool fits =
      is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
  if (!fits || scalar_.size() == kScalarMax) return false;
  scalar_ += c;
  // What cannot become one is refused at once: "nope".
  if (c >= 'a' && c <= 'z' && c != 'e') {
    for (const std::string_view literal : {"true", "false", "null"})
      if (literal.starts_with(scalar_)) return true;
    scalar_.pop_back();
    return false;
  }
  return true;
}

bool JsonScanner::scalar_whole() const { return is_literal(scalar_) || is_json_number(scalar_); }

}  // namespace tandem
