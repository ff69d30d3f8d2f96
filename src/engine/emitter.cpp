#include "engine/emitter.h"

#include <algorithm>

namespace tandem {

Emitter::Emitter(const Request& request, std::span<const int32_t> model_stop_ids, const Tokenizer*)
    : stop_ids_(request.stop_ids),
      min_tokens_(request.min_tokens),
      max_tokens_(request.max_tokens) {
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
  if (is_stop(token.id)) return FinishReason::kStop;
  event.tokens.push_back(std::move(token));
  return generated_ >= max_tokens_ ? FinishReason::kLength : FinishReason::kNone;
}

}  // namespace tandem
