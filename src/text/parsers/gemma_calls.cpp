#include <optional>

#include "text/parsers/call_parser.h"
#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

constexpr size_t kNameMax = 256;
constexpr int kDepthMax = 64;

// A value as Gemma writes it, whole, to JSON.
class ValueReader {
 public:
  ValueReader(std::string_view text, const std::string& quote) : text_(text), quote_(quote) {}

  std::optional<std::string> read(const JsonTypes& types) {
    std::string out;
    if (!value(out, types, 0)) return {};
    skip_space();
    return at_ == text_.size() ? std::optional(out) : std::nullopt;
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }

  void skip_space() {
    while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
  }

  bool take(std::string_view token) {
    skip_space();
    if (!rest().starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  bool value(std::string& out, const JsonTypes& types, int depth) {
    if (depth > kDepthMax) return false;
    if (take("[")) return list(out, depth);
    if (take("{")) return object(out, depth);
    if (take(quote_)) return string(out);
    if (rest().starts_with('"')) return json_string_value(out);
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(depth > 0 ? ",]}" : "", at_), text_.size());
    const std::string_view word = trimmed(text_.substr(begin, at_ - begin));
    if (word.empty()) return false;
    out += typed_value(word, types);
    return true;
  }

  bool string(std::string& out) {
    const size_t end = text_.find(quote_, at_);
    if (end == std::string_view::npos) return false;
    out += json_string(text_.substr(at_, end - at_));
    at_ = end + quote_.size();
    return true;
  }

  bool json_string_value(std::string& out) {
    JsonScanner scanner;
    while (at_ < text_.size()) {
      const auto state = scanner.feed(text_[at_++], out);
      if (state != JsonScanner::State::kMore) return state == JsonScanner::State::kDone;
    }
    return false;
  }

  bool list(std::string& out, int depth) {
    out += '[';
    for (bool first = true; !take("]"); first = false) {
      if (!first && !take(",")) return false;
      if (!first) out += ", ";
      if (!value(out, JsonTypes::any(), depth + 1)) return false;
    }
    out += ']';
    return true;
  }

  bool object(std::string& out, int depth) {
    out += '{';
    for (bool first = true; !take("}"); first = false) {
      if (!first && !take(",")) return false;
      if (!first) out += ", ";
      if (!key(out)) return false;
      if (!value(out, JsonTypes::any(), depth + 1)) return false;
    }
    out += '}';
    return true;
  }

  bool key(std::string& out) {
    if (take(quote_)) {
      if (!string(out) || !take(":")) return false;
    } else if (skip_space(); rest().starts_with('"')) {
      if (!json_string_value(out) || !take(":")) return false;
    } else {
      const size_t colon = text_.find(':', at_);
      if (colon == std::string_view::npos) return false;
      out += json_string(trimmed(text_.substr(at_, colon - at_)));
      at_ = colon + 1;
    }
    out += ": ";
    return true;
  }

  std::string_view text_;
  const std::string& quote_;
  size_t at_ = 0;
};

class GemmaCalls : public CallParser {
 public:
  explicit GemmaCalls(GemmaCallsShape shape)
      : shape_(std::move(shape)),
        next_({"call:", shape_.close}),
        quote_({shape_.quote}),
        string_(shape_.quote) {}

  State feed(char c, CallSink& sink) override {
    switch (at_) {
      case At::kBetween: return between(c, sink);
      case At::kName: return name(c, sink);
      case At::kKeyOrEnd: return key_or_end(c, sink);
      case At::kKey: return key(c);
      case At::kValueStart: return value_start(c, sink);
      case At::kString: return string(c, sink);
      case At::kValue: return value(c, sink);
      case At::kCommaOrEnd: return comma_or_end(c, sink);
    }
    return State::kBad;
  }

  State finish(CallSink&) override {
    const bool whole = at_ == At::kBetween && calls_ > 0 && !next_.begun();
    return whole ? State::kDone : State::kBad;
  }

 private:
  enum class At : uint8_t {
    kBetween,
    kName,
    kKeyOrEnd,
    kKey,
    kValueStart,
    kString,
    kValue,
    kCommaOrEnd,
  };

  State between(char c, CallSink& sink) {
    if (!next_.begun() && is_json_space(c)) return State::kMore;
    size_t which = 0;
    switch (next_.feed(c, which)) {
      case Expected::State::kPart: return State::kMore;
      case Expected::State::kOther: return State::kBad;
      case Expected::State::kFound: break;
    }
    if (which == 1) {
      if (calls_ > 0) sink.commit();
      return calls_ > 0 ? State::kDone : State::kBad;
    }
    text_.clear();
    at_ = At::kName;
    return State::kMore;
  }

  State name(char c, CallSink& sink) {
    if (c != '{') {
      text_ += c;
      return text_.size() > kNameMax ? State::kBad : State::kMore;
    }
    const std::string_view name = trimmed(text_);
    tool_ = sink.tools().find(name);
    if (!tool_) return State::kBad;
    sink.begin(name);
    any_argument_ = false;
    at_ = At::kKeyOrEnd;
    return State::kMore;
  }

  State key_or_end(char c, CallSink& sink) {
    if (is_json_space(c)) return State::kMore;
    if (c == '}') return end_call(sink);
    text_ = c;
    at_ = At::kKey;
    return c == ':' ? State::kBad : State::kMore;
  }

  State key(char c) {
    if (c != ':') {
      text_ += c;
      return text_.size() > kNameMax ? State::kBad : State::kMore;
    }
    std::string_view key = trimmed(text_);
    for (const std::string_view quote : {std::string_view(shape_.quote), std::string_view("\"")})
      if (key.size() > 2 * quote.size() && key.starts_with(quote) && key.ends_with(quote))
        key = key.substr(quote.size(), key.size() - 2 * quote.size());
    key_ = key;
    text_.clear();
    depth_ = 0;
    in_string_ = false;
    at_ = At::kValueStart;
    return State::kMore;
  }

  State value_start(char c, CallSink& sink) {
    if (!quote_.begun() && is_json_space(c)) return State::kMore;
    text_ += c;
    size_t which = 0;
    switch (quote_.feed(c, which)) {
      case Expected::State::kPart: return State::kMore;
      case Expected::State::kOther: break;
      case Expected::State::kFound:
        text_.clear();
        sink.arguments(key_text() + '"');
        at_ = At::kString;
        return State::kMore;
    }
    quote_.reset();
    at_ = At::kValue;
    const std::string start = std::move(text_);
    text_.clear();
    for (const char byte : start) {
      const State state = value(byte, sink);
      if (state != State::kMore) return state;
    }
    return State::kMore;
  }

  std::string key_text() {
    std::string out = any_argument_ ? ", " : "{";
    any_argument_ = true;
    return out + json_string(key_) + ": ";
  }

  State string(char c, CallSink& sink) {
    std::string text, out;
    const bool closed = string_.feed(c, text);
    for (const char byte : text) append_json_escaped(byte, out);
    if (closed) out += '"';
    if (!out.empty()) sink.arguments(out, string_.held());
    if (closed) at_ = At::kCommaOrEnd;
    return State::kMore;
  }

  // Lists, objects, numbers and words, up to the comma or brace behind.
  State value(char c, CallSink& sink) {
    if (!in_string_ && depth_ == 0 && (c == ',' || c == '}')) {
      const auto json = ValueReader(text_, shape_.quote).read(tool_->types_of(key_));
      if (!json) return State::kBad;
      sink.arguments(key_text() + *json);
      return comma_or_end(c, sink);
    }
    text_ += c;
    if (text_.ends_with(shape_.quote)) in_string_ = !in_string_;
    if (in_string_) return State::kMore;
    if (c == '[' || c == '{') ++depth_;
    if (c == ']' || c == '}') --depth_;
    return depth_ < 0 ? State::kBad : State::kMore;
  }

  State comma_or_end(char c, CallSink& sink) {
    if (is_json_space(c)) return State::kMore;
    at_ = At::kKeyOrEnd;
    if (c == ',') return State::kMore;
    return c == '}' ? end_call(sink) : State::kBad;
  }

  State end_call(CallSink& sink) {
    sink.arguments(any_argument_ ? "}" : "{}");
    sink.end();
    ++calls_;
    at_ = At::kBetween;
    return State::kMore;
  }

  const GemmaCallsShape shape_;
  Expected next_;  // another call, close
  Expected quote_;
  Until string_;
  At at_ = At::kBetween;
  const ToolSignature* tool_ = nullptr;
  bool any_argument_ = false;
  bool in_string_ = false;
  int depth_ = 0;
  int calls_ = 0;
  std::string key_, text_;
};

}  // namespace

std::unique_ptr<CallParser> gemma_calls(GemmaCallsShape shape) {
  return std::make_unique<GemmaCalls>(std::move(shape));
}

}  // namespace tandem
