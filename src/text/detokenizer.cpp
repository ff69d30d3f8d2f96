#include "text/detokenizer.h"

#include <algorithm>

namespace tandem {

std::string Detokenizer::push(int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id) &&
      !std::binary_search(shown_.begin(), shown_.end(), id))
    return {};
  std::string_view bytes = tokenizer_->token_bytes(id);
  if (at_start_ && !bytes.empty()) {
    at_start_ = false;
    if (tokenizer_->strips_leading_space() && bytes.front() == ' ') bytes.remove_prefix(1);
  }
  std::string text;
  utf8_.push(bytes, text);
  return text;
}

std::string Detokenizer::flush() {
  std::string text;
  utf8_.flush(text);
  at_start_ = true;
  return text;
}

}  // namespace tandem
