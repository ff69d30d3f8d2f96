#include <nlohmann/json.hpp>
#include <optional>

#include "text/parsers/call_parser.h"
#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

// The text of a JSON string literal.
std::optional<std::string> string_value(const std::string& literal) {
  const auto value = nlohmann::json::parse(literal, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

class JsonCalls : public CallParser {
 public:
  explicit JsonCalls(JsonCallsShape shape)
      : close_(std::move(shape.close)), strict_keys_(shape.strict_keys), closing_({close_}) {}

  State feed(char c, CallSink& sink) override {
    switch (at_) {
      case At::kBetween: return between(c, sink);
      case At::kKeyOrEnd: return key_or_end(c, sink);
      case At::kKey: return key(c);
      case At::kColon: return colon(c);
      case At::kValue: return value_start(c, sink);
      case At::kBuffered: return buffered(c, sink);
      case At::kArguments: return arguments(c, sink);
      case At::kCommaOrEnd: return comma_or_end(c, sink);
    }
    return State::kBad;
  }

  State finish(CallSink&) override {
    const bool whole = at_ == At::kBetween && calls_ > 0 && !closing_.begun();
    return whole ? State::kDone : State::kBad;
  }

 private:
  enum class At : uint8_t {
    kBetween,
    kKeyOrEnd,
    kKey,
    kColon,
    kValue,
    kBuffered,
    kArguments,
    kCommaOrEnd,
  };

  State between(char c, CallSink& sink) {
    if (closing_.begun() || (calls_ > 0 && !in_list_ && close_.starts_with(c))) {
      size_t which = 0;
      switch (closing_.feed(c, which)) {
        case Expected::State::kPart: return State::kMore;
        case Expected::State::kOther: return State::kBad;
        case Expected::State::kFound: sink.commit(); return State::kDone;
      }
    }
    if (is_json_space(c)) {
      if (calls_ > 0 && !separated_) sink.commit();
      return State::kMore;
    }
    if (calls_ > 0 && (c == ',' || c == ';')) {
      separated_ = true;
      return State::kMore;
    }
    if (c == '[' && !in_list_ && calls_ == 0) {
      in_list_ = true;
      return State::kMore;
    }
    if (c == ']' && in_list_ && calls_ > 0) {
      in_list_ = false;
      sink.commit();
      return close_.empty() ? State::kDone : State::kMore;
    }
    if (c != '{') return State::kBad;
    at_ = At::kKeyOrEnd;
    level_ = 0;
    separated_ = false;
    name_.clear();
    saved_.clear();
    announced_ = false;
    return State::kMore;
  }

  State key_or_end(char c, CallSink& sink) {
    if (is_json_space(c)) return State::kMore;
    if (c == '}') return object_end(sink);
    if (c != '"') return State::kBad;
    at_ = At::kKey;
    start_buffer(c);
    return State::kMore;
  }

  State key(char c) {
    const auto state = scanner_.feed(c, buffer_);
    if (state == JsonScanner::State::kBad) return State::kBad;
    if (state == JsonScanner::State::kMore) return State::kMore;
    const auto key = string_value(buffer_);
    if (!key) return State::kBad;
    key_ = *key;
    at_ = At::kColon;
    const bool known =
        is_arguments() || key_ == "name" || key_ == "type" || key_ == "id" || key_ == "function";
    return known || !strict_keys_ ? State::kMore : State::kBad;
  }

  bool is_arguments() const { return key_ == "arguments" || key_ == "parameters"; }

  State colon(char c) {
    if (is_json_space(c)) return State::kMore;
    at_ = At::kValue;
    return c == ':' ? State::kMore : State::kBad;
  }

  State value_start(char c, CallSink& sink) {
    if (is_json_space(c)) return State::kMore;
    if (c == '{' && key_ == "function" && level_ == 0) {
      level_ = 1;
      at_ = At::kKeyOrEnd;
      return State::kMore;
    }
    if (c == '{' && is_arguments() && !name_.empty() && !announced_) {
      announce(sink);
      at_ = At::kArguments;
      scanner_ = {};
      return arguments(c, sink);
    }
    at_ = At::kBuffered;
    scalar_ = c != '{' && c != '[' && c != '"';
    start_buffer(c);
    return State::kMore;
  }

  void start_buffer(char c) {
    buffer_.clear();
    scanner_ = {};
    scanner_.feed(c, buffer_);
  }

  State buffered(char c, CallSink& sink) {
    if (scalar_) {
      if (c != ',' && c != '}' && !is_json_space(c)) {
        buffer_ += c;
        return State::kMore;
      }
      if (!checked_json(buffer_) || !value_done(sink)) return State::kBad;
      return comma_or_end(c, sink);
    }
    const auto state = scanner_.feed(c, buffer_);
    if (state == JsonScanner::State::kMore) return State::kMore;
    return state == JsonScanner::State::kDone && value_done(sink) ? State::kMore : State::kBad;
  }

  bool value_done(CallSink& sink) {
    at_ = At::kCommaOrEnd;
    if (key_ == "name" || (key_ == "function" && buffer_.starts_with('"'))) {
      const auto name = string_value(buffer_);
      if (!name || !sink.tools().find(*name)) return false;
      name_ = *name;
      if (!saved_.empty()) deliver(saved_, sink);
      return true;
    }
    if (!is_arguments()) return true;
    std::string json = buffer_;
    // Some write the object as a text once more.
    if (json.starts_with('"')) {
      const auto text = checked_json(string_value(buffer_).value_or(""));
      if (!text) return false;
      json = *text;
    }
    if (json == "null") json = "{}";
    if (!json.starts_with('{')) return false;
    if (name_.empty()) {
      saved_ = json;
    } else {
      deliver(json, sink);
    }
    return true;
  }

  void announce(CallSink& sink) {
    announced_ = true;
    sink.begin(name_);
  }

  void deliver(const std::string& json, CallSink& sink) {
    if (announced_) return;
    announce(sink);
    sink.arguments(json);
  }

  State arguments(char c, CallSink& sink) {
    std::string out;
    const auto state = scanner_.feed(c, out);
    if (state == JsonScanner::State::kBad) return State::kBad;
    sink.arguments(out);
    if (state == JsonScanner::State::kDone) at_ = At::kCommaOrEnd;
    return State::kMore;
  }

  State comma_or_end(char c, CallSink& sink) {
    if (is_json_space(c)) return State::kMore;
    if (c == ',') {
      at_ = At::kKeyOrEnd;
      return State::kMore;
    }
    return c == '}' ? object_end(sink) : State::kBad;
  }

  State object_end(CallSink& sink) {
    if (level_ > 0) {
      level_ = 0;
      at_ = At::kCommaOrEnd;
      return State::kMore;
    }
    if (name_.empty()) return State::kBad;
    deliver("{}", sink);
    sink.end();
    ++calls_;
    at_ = At::kBetween;
    return close_.empty() && !in_list_ && !strict_keys_ ? State::kDone : State::kMore;
  }

  const std::string close_;
  const bool strict_keys_;
  Expected closing_;
  At at_ = At::kBetween;
  JsonScanner scanner_;
  bool in_list_ = false;
  bool separated_ = false;  // a comma or semicolon has come since the last call
  bool scalar_ = false;     // the buffered value is a number or a literal
  bool announced_ = false;  // this call has begun
  int calls_ = 0;
  int level_ = 0;  // 1 inside of {"function": {...}}
  std::string key_, name_, buffer_;
  std::string saved_;  // arguments that came before the name
};

}  // namespace

std::unique_ptr<CallParser> json_calls(JsonCallsShape shape) {
  return std::make_unique<JsonCalls>(std::move(shape));
}

}  // namespace tandem
