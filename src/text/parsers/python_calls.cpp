#include "text/parsers/call_parser.h"
#include "text/parsers/json_scanner.h"
#include "text/parsers/python_literal.h"

namespace tandem {
namespace {

constexpr size_t kNameMax = 256;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9') || c == '-'; }

class PythonCalls : public CallParser {
 public:
  explicit PythonCalls(PythonCallsShape shape)
      : close_(std::move(shape.close)), closing_({close_}) {}

  State feed(char c, CallSink& sink) override {
    switch (at_) {
      case At::kBetween: return between(c, sink);
      case At::kName: return name(c, sink);
      case At::kKeyOrEnd: return key_or_end(c, sink);
      case At::kKey: return key(c);
      case At::kValue: return value(c, sink);
    }
    return State::kBad;
  }

  State finish(CallSink&) override {
    const bool whole =
        at_ == At::kBetween && calls_ > 0 && !in_list_ && printing_ == 0 && !closing_.begun();
    return whole ? State::kDone : State::kBad;
  }

 private:
  enum class At : uint8_t { kBetween, kName, kKeyOrEnd, kKey, kValue };

  State between(char c, CallSink& sink) {
    if (closing_.begun() || (calls_ > 0 && !in_list_ && printing_ == 0 && close_.starts_with(c))) {
      size_t which = 0;
      switch (closing_.feed(c, which)) {
        case Expected::State::kPart: return State::kMore;
        case Expected::State::kOther: return State::kBad;
        case Expected::State::kFound: sink.commit(); return State::kDone;
      }
    }
    if (is_json_space(c) || (c == ',' && calls_ > 0) || (c == ';' && calls_ > 0))
      return State::kMore;
    if (c == '[' && !in_list_ && calls_ == 0) {
      in_list_ = true;
      return State::kMore;
    }
    if (c == ']' && in_list_ && calls_ > 0) {
      in_list_ = false;
      sink.commit();
      return close_.empty() ? State::kDone : State::kMore;
    }
    if (c == ')' && printing_ > 0 && calls_ > 0) {
      --printing_;
      sink.commit();
      return State::kMore;
    }
    if (!is_name_start(c)) return State::kBad;
    text_ = c;
    at_ = At::kName;
    return State::kMore;
  }

  State name(char c, CallSink& sink) {
    if (is_name_part(c) || c == '.') {
      text_ += c;
      return text_.size() > kNameMax ? State::kBad : State::kMore;
    }
    if (c != '(') return State::kBad;
    std::string_view name = text_;
    tool_ = sink.tools().find(name);
    if (!tool_ && name == "print" && printing_ == 0) {
      ++printing_;
      at_ = At::kBetween;
      return State::kMore;
    }
    if (const size_t dot = name.rfind('.'); !tool_ && dot != std::string_view::npos) {
      name.remove_prefix(dot + 1);
      tool_ = sink.tools().find(name);
    }
    if (!tool_) return State::kBad;
    sink.begin(name);
    any_argument_ = false;
    at_ = At::kKeyOrEnd;
    return State::kMore;
  }

  State key_or_end(char c, CallSink& sink) {
    if (is_json_space(c)) return State::kMore;
    if (c == ')') return end_call(sink);
    if (!is_name_start(c)) return State::kBad;
    text_ = c;
    at_ = At::kKey;
    return State::kMore;
  }

  State key(char c) {
    if (is_name_part(c)) {
      text_ += c;
      return text_.size() > kNameMax ? State::kBad : State::kMore;
    }
    if (is_json_space(c)) return State::kMore;
    if (c != '=') return State::kBad;
    key_ = text_;
    text_.clear();
    scanner_ = {};
    at_ = At::kValue;
    return State::kMore;
  }

  State value(char c, CallSink& sink) {
    if (!scanner_.ends_before(c)) {
      text_ += c;
      return State::kMore;
    }
    const auto json = python_to_json(text_);
    if (!json || (c != ',' && c != ')')) return State::kBad;
    std::string out = any_argument_ ? ", " : "{";
    any_argument_ = true;
    sink.arguments(out + json_string(key_) + ": " + *json);
    at_ = At::kKeyOrEnd;
    return c == ')' ? end_call(sink) : State::kMore;
  }

  State end_call(CallSink& sink) {
    sink.arguments(any_argument_ ? "}" : "{}");
    sink.end();
    ++calls_;
    at_ = At::kBetween;
    const bool alone = close_.empty() && !in_list_ && printing_ == 0;
    return alone ? State::kDone : State::kMore;
  }

  const std::string close_;
  Expected closing_;
  At at_ = At::kBetween;
  PythonScanner scanner_;
  const ToolSignature* tool_ = nullptr;
  bool in_list_ = false;
  bool any_argument_ = false;
  int printing_ = 0;  // open print(
  int calls_ = 0;
  std::string key_, text_;
};

}  // namespace

std::unique_ptr<CallParser> python_calls(PythonCallsShape shape) {
  return std::make_unique<PythonCalls>(std::move(shape));
}

}  // namespace tandem
