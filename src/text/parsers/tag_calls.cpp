#include "text/parsers/call_parser.h"
#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

constexpr size_t kNameMax = 256;
constexpr std::string_view kDataOpen = "<![CDATA[";
constexpr std::string_view kDataClose = "]]>";

class TagCalls : public CallParser {
 public:
  explicit TagCalls(TagCallsShape shape)
      : shape_(std::move(shape)),
        next_({shape_.key_open, shape_.close}),
        value_open_({shape_.value_open}),
        sections_({shape_.open, shape_.section_close.empty() ? shape_.open : shape_.section_close}),
        value_(shape_.value_close, shape_.trims_newlines) {
    if (shape_.opened) at_ = At::kName;
  }

  State feed(char c, CallSink& sink) override {
    switch (at_) {
      case At::kBetween: return between(c, sink);
      case At::kName: return name(c, sink);
      case At::kNext: return next(c, sink);
      case At::kKey: return key(c);
      case At::kValueOpen: return value_open(c);
      case At::kValueStart: return value_start(c, sink);
      case At::kValue: return value(c, sink);
      case At::kValueClose: return value_close(c, sink);
    }
    return State::kBad;
  }

  State finish(CallSink& sink) override {
    // Between parameters a call may end without its closing tag.
    if (at_ == At::kNext && !next_.begun() && any_argument_) {
      end_call(sink);
      return State::kDone;
    }
    return at_ == At::kBetween && calls_ > 0 && !sections_.begun() ? State::kDone : State::kBad;
  }

 private:
  enum class At : uint8_t {
    kBetween,
    kName,
    kNext,
    kKey,
    kValueOpen,
    kValueStart,
    kValue,
    kValueClose,
  };

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
    text_.clear();
    return State::kMore;
  }

  State name(char c, CallSink& sink) {
    // A name that ends where the first key or the end of the call begins.
    if (shape_.name_end.empty()) {
      if (c != '\n' && c != '<') return append_name(c);
      if (!begin(sink)) return State::kBad;
      return c == '<' ? next(c, sink) : State::kMore;
    }
    if (append_name(c) == State::kBad) return State::kBad;
    if (!text_.ends_with(shape_.name_end)) return State::kMore;
    text_.resize(text_.size() - shape_.name_end.size());
    return begin(sink) ? State::kMore : State::kBad;
  }

  State append_name(char c) {
    text_ += c;
    return text_.size() > kNameMax ? State::kBad : State::kMore;
  }

  bool begin(CallSink& sink) {
    std::string_view name = trimmed(text_);
    if (name.size() > 1 && name.front() == '"' && name.back() == '"')
      name = name.substr(1, name.size() - 2);
    tool_ = sink.tools().find(name);
    if (!tool_) return false;
    sink.begin(name);
    any_argument_ = false;
    at_ = At::kNext;
    return true;
  }

  State next(char c, CallSink& sink) {
    if (!next_.begun() && is_json_space(c)) return State::kMore;
    size_t which = 0;
    switch (next_.feed(c, which)) {
      case Expected::State::kPart: return State::kMore;
      case Expected::State::kOther: return State::kBad;
      case Expected::State::kFound: break;
    }
    text_.clear();
    if (which == 0) {
      at_ = At::kKey;
      return State::kMore;
    }
    end_call(sink);
    return shape_.section_close.empty() ? State::kDone : State::kMore;
  }

  void end_call(CallSink& sink) {
    sink.arguments(any_argument_ ? "}" : "{}");
    sink.end();
    ++calls_;
    at_ = At::kBetween;
  }

  State key(char c) {
    if (append_name(c) == State::kBad) return State::kBad;
    if (!text_.ends_with(shape_.key_end)) return State::kMore;
    text_.resize(text_.size() - shape_.key_end.size());
    key_ = trimmed(text_);
    types_ = tool_->types_of(key_);
    text_.clear();
    at_ = shape_.value_open.empty() ? At::kValueStart : At::kValueOpen;
    return State::kMore;
  }

  State value_open(char c) {
    if (!value_open_.begun() && is_json_space(c)) return State::kMore;
    size_t which = 0;
    switch (value_open_.feed(c, which)) {
      case Expected::State::kPart: return State::kMore;
      case Expected::State::kOther: return State::kBad;
      case Expected::State::kFound: break;
    }
    at_ = At::kValueStart;
    return State::kMore;
  }

  // A line feed at the start may belong to the tag, and a section of raw
  // characters may begin here.
  State value_start(char c, CallSink& sink) {
    text_ += c;
    if (kDataOpen == trimmed(text_)) {
      text_.clear();
      value_ = Until(std::string(kDataClose));
      in_data_ = true;
      at_ = At::kValue;
      return State::kMore;
    }
    if (trimmed(text_).empty() ? text_.size() < 64 : kDataOpen.starts_with(trimmed(text_)))
      return State::kMore;
    at_ = At::kValue;
    value_ = Until(shape_.value_close, shape_.trims_newlines);
    const std::string start = text_;
    text_.clear();
    const bool skips = shape_.trims_newlines && start.starts_with('\n');
    // A value of nothing but the line feed that belongs to both tags.
    for (size_t i = skips ? 1 : 0; i < start.size(); ++i) {
      const State state = value(start[i], sink);
      if (state == State::kBad) return state;
    }
    return State::kMore;
  }

  State value(char c, CallSink& sink) {
    const size_t before = text_.size();
    const bool closed = value_.feed(c, text_);
    if (types_.only_string() && (closed || text_.size() > before)) stream_string(sink);
    if (!closed) return State::kMore;
    if (in_data_) {
      at_ = At::kValueClose;
      value_ = Until(shape_.value_close);
      return State::kMore;
    }
    end_value(sink);
    return State::kMore;
  }

  void open_argument(std::string& out) {
    if (argument_open_) return;
    argument_open_ = true;
    out += any_argument_ ? ", " : "{";
    any_argument_ = true;
    out += json_string(key_) + ": ";
    if (types_.only_string()) out += '"';
  }

  // What of a string has come goes out at once.
  void stream_string(CallSink& sink) {
    std::string out;
    open_argument(out);
    for (const char c : text_) append_json_escaped(c, out);
    text_.clear();
    sink.arguments(out, value_.held());
  }

  void end_value(CallSink& sink) {
    std::string out;
    open_argument(out);
    out += types_.only_string() ? "\"" : typed_value(text_, types_);
    text_.clear();
    sink.arguments(out);
    argument_open_ = in_data_ = false;
    at_ = At::kNext;
  }

  // Behind a section of raw characters.
  State value_close(char c, CallSink& sink) {
    std::string gap;
    const bool closed = value_.feed(c, gap);
    if (trimmed(gap) != "") return State::kBad;
    if (closed) end_value(sink);
    return State::kMore;
  }

  const TagCallsShape shape_;
  Expected next_;  // key_open, close
  Expected value_open_;
  Expected sections_;  // open, section_close
  Until value_;
  At at_ = At::kBetween;
  const ToolSignature* tool_ = nullptr;
  JsonTypes types_;
  int calls_ = 0;
  bool any_argument_ = false;   // of this call, begun
  bool argument_open_ = false;  // its key is out
  bool in_data_ = false;
  std::string key_;
  std::string text_;  // of the part being read that is not out yet
};

}  // namespace

std::unique_ptr<CallParser> tag_calls(TagCallsShape shape) {
  return std::make_unique<TagCalls>(std::move(shape));
}

}  // namespace tandem
