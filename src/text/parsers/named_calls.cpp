#include "text/parsers/call_parser.h"
#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

constexpr size_t kNameMax = 256;

// "functions.get_weather:0" names get_weather.
std::string_view plain_name(std::string_view name) {
  name = trimmed(name);
  if (name.starts_with("functions.")) name.remove_prefix(10);
  const size_t colon = name.rfind(':');
  const bool numbered = colon != std::string_view::npos &&
                        name.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return numbered ? name.substr(0, colon) : name;
}

class NamedCalls : public CallParser {
 public:
  explicit NamedCalls(NamedCallsShape shape)
      : shape_(std::move(shape)), ends_({shape_.close}), sections_(section_texts()) {
    if (shape_.open.empty()) at_ = At::kName;
  }

  State feed(char c, CallSink& sink) override {
    switch (at_) {
      case At::kBetween: return between(c, sink);
      case At::kName: return name(c, sink);
      case At::kFence: return fence(c, sink);
      case At::kArguments: return arguments(c, sink);
      case At::kTail: return tail(c, sink);
    }
    return State::kBad;
  }

  State finish(CallSink&) override {
    const bool whole = calls_ > 0 && (at_ == At::kTail || at_ == At::kBetween) && !ends_.begun() &&
                       !sections_.begun();
    return whole ? State::kDone : State::kBad;
  }

 private:
  enum class At : uint8_t { kBetween, kName, kFence, kArguments, kTail };

  std::vector<std::string> section_texts() const {
    if (shape_.section_close.empty()) return {shape_.open};
    return {shape_.open, shape_.section_close};
  }

  State between(char c, CallSink& sink) {
    if (!sections_.begun() && is_json_space(c)) return State::kMore;
    size_t which = 0;
    switch (sections_.feed(c, which)) {
      case Expected::State::kPart: return State::kMore;
      case Expected::State::kOther: return State::kBad;
      case Expected::State::kFound: break;
    }
    if (which == 1) {
      if (calls_ > 0) sink.commit();
      return calls_ > 0 ? State::kDone : State::kBad;
    }
    at_ = At::kName;
    return State::kMore;
  }

  State name(char c, CallSink& sink) {
    if (c == '{') return begin(c, sink);
    text_ += c;
    if (text_.size() > kNameMax) return State::kBad;
    if (!shape_.id_separator.empty() && text_.ends_with(shape_.id_separator)) {
      name_ = text_.substr(0, text_.size() - shape_.id_separator.size());
      text_.clear();
      return State::kMore;
    }
    for (const std::string& separator : shape_.separators) {
      if (!text_.ends_with(separator)) continue;
      text_.resize(text_.size() - separator.size());
      at_ = At::kFence;
      return State::kMore;
    }
    return State::kMore;
  }

  // Between name and arguments: nothing, or a kind before the name proper and
  // the opening of a fenced block.
  State fence(char c, CallSink& sink) {
    if (c == '{') return begin(c, sink);
    fence_ += c;
    return fence_.size() > kNameMax ? State::kBad : State::kMore;
  }

  // "get_weather\n```json\n" behind the kind "function".
  bool read_fence(std::string& name) const {
    std::string_view fence = trimmed(fence_);
    const size_t ticks = fence.find("```");
    if (ticks != std::string_view::npos) {
      const std::string_view language = trimmed(fence.substr(ticks + 3));
      if (!language.empty() && language != "json") return false;
      fence = trimmed(fence.substr(0, ticks));
    }
    if (!fence.empty()) name = fence;
    return true;
  }

  State begin(char c, CallSink& sink) {
    std::string id;
    std::string full = text_;
    if (!name_.empty()) {
      id = trimmed(text_);
      full = name_;
    }
    if (!read_fence(full)) return State::kBad;
    const std::string_view name = plain_name(full);
    if (!sink.tools().find(name)) return State::kBad;
    sink.begin(name, id);
    at_ = At::kArguments;
    scanner_ = {};
    return arguments(c, sink);
  }

  State arguments(char c, CallSink& sink) {
    std::string out;
    const auto state = scanner_.feed(c, out);
    if (state == JsonScanner::State::kBad) return State::kBad;
    sink.arguments(out);
    if (state == JsonScanner::State::kMore) return State::kMore;
    sink.end();
    ++calls_;
    name_.clear();
    text_.clear();
    fence_.clear();
    at_ = At::kTail;
    return shape_.close.empty() ? State::kDone : State::kMore;
  }

  State tail(char c, CallSink& sink) {
    if (!ends_.begun() && (is_json_space(c) || c == '`')) return State::kMore;
    size_t which = 0;
    switch (ends_.feed(c, which)) {
      case Expected::State::kPart: return State::kMore;
      case Expected::State::kOther: return State::kBad;
      case Expected::State::kFound: break;
    }
    sink.commit();
    at_ = At::kBetween;
    return shape_.section_close.empty() ? State::kDone : State::kMore;
  }

  const NamedCallsShape shape_;
  Expected ends_;
  Expected sections_;  // open, section_close
  At at_ = At::kBetween;
  JsonScanner scanner_;
  int calls_ = 0;
  std::string name_;  // if an id follows it
  std::string text_;  // the name, or its id
  std::string fence_;
};

}  // namespace

std::unique_ptr<CallParser> named_calls(NamedCallsShape shape) {
  return std::make_unique<NamedCalls>(std::move(shape));
}

}  // namespace tandem
