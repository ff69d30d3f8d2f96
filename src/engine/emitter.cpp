#include "engine/emitter.h"

#include <algorithm>

namespace tandem {

Emitter::Emitter(const Request& request, std::span<const int32_t> model_stop_ids,
                 const Tokenizer* tokenizer)
    : stop_ids_(request.stop_ids),
      stop_(request.stop),
      matcher_(request.stop),
      min_tokens_(request.min_tokens),
      max_tokens_(request.max_tokens) {
  if (tokenizer) detokenizer_.emplace(*tokenizer, /*skip_special=*/true, request.shown_ids);
  if (!request.ignore_eos) {
    stop_ids_.insert(stop_ids_.end(), model_stop_ids.begin(), model_stop_ids.end());
  }
  std::sort(stop_ids_.begin(), stop_ids_.end());
}

bool Emitter::is_stop(int32_t id) const {
  return std::binary_search(stop_ids_.begin(), stop_ids_.end(), id);
}

std::span<const int32_t> Emitter::forbidden() const {
  return generated_ < min_tokens_ ? std::span(stop_ids_) : std::span<const int32_t>();
}

FinishReason Emitter::accept(TokenInfo token, Event& event) {
  ++generated_;
  const int32_t id = token.id;
  if (is_stop(id)) return finish(FinishReason::kStop, event);
  event.tokens.push_back(std::move(token));
  if (detokenizer_ && add_text(detokenizer_->push(id), event)) return FinishReason::kStop;
  return generated_ >= max_tokens_ ? finish(FinishReason::kLength, event) : FinishReason::kNone;
}

bool Emitter::add_text(const std::string& text, Event& event) {
  if (generated_ < min_tokens_) {
    event.text += text;
    return false;
  }
  const StopMatcher::Result result = matcher_.push(text);
  event.text += result.text;
  if (result.matched) event.matched_stop = stop_[result.which];
  return result.matched;
}

FinishReason Emitter::finish(FinishReason reason, Event& event) {
  if (!detokenizer_) return reason;
  if (add_text(detokenizer_->flush(), event)) return FinishReason::kStop;
  event.text += matcher_.flush().text;
  return reason;
}

}  // namespace tandem
