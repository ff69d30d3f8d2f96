#include "text/parsers/call_parser.h"

#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

class EitherCall : public CallParser {
 public:
  explicit EitherCall(std::vector<CallChoice> choices) : choices_(std::move(choices)) {}

  State feed(char c, CallSink& sink) override {
    if (!chosen_ && !is_json_space(c)) choose(c);
    return chosen_ ? chosen_->feed(c, sink) : is_json_space(c) ? State::kMore : State::kBad;
  }

  State finish(CallSink& sink) override { return chosen_ ? chosen_->finish(sink) : State::kBad; }

 private:
  void choose(char c) {
    for (CallChoice& choice : choices_) {
      if (!choice.first.empty() && choice.first.find(c) == std::string::npos) continue;
      chosen_ = std::move(choice.parser);
      return;
    }
  }

  std::vector<CallChoice> choices_;
  std::unique_ptr<CallParser> chosen_;
};

}  // namespace

std::unique_ptr<CallParser> either_call(std::vector<CallChoice> choices) {
  return std::make_unique<EitherCall>(std::move(choices));
}

Expected::State Expected::feed(char c, size_t& which) {
  seen_ += c;
  bool part = false;
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i] == seen_) {
      which = i;
      seen_.clear();
      return State::kFound;
    }
    part |= texts_[i].starts_with(seen_);
  }
  return part ? State::kPart : State::kOther;
}

bool Until::may_close() const {
  if (close_.starts_with(held_)) return true;
  return trims_newline_ && held_.front() == '\n' &&
         std::string_view(close_).starts_with(std::string_view(held_).substr(1));
}

bool Until::feed(char c, std::string& out) {
  held_ += c;
  while (!held_.empty() && !may_close()) {
    out += held_.front();
    held_.erase(0, 1);
  }
  const bool closed = held_.ends_with(close_);
  if (closed) held_.clear();
  return closed;
}

}  // namespace tandem
