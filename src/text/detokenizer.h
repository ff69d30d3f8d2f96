// Token ids to text, one at a time: the text of one row as it is generated.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tandem {

// The pieces of push and flush, joined, are Tokenizer::decode of all ids.
// Each piece is valid UTF-8: bytes of an incomplete character wait for the
// rest, and become U+FFFD only when no rest can come. Control tokens give no
// text unless `skip_special` is false or they are among `shown` (ascending).
// The tokenizer must outlive this. One thread at a time.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true,
                       std::vector<int32_t> shown = {})
      : tokenizer_(&tokenizer), skip_special_(skip_special), shown_(std::move(shown)) {}

  // The text that this token makes certain; perhaps none.
  std::string push(int32_t id);

  // What is left at the end.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::vector<int32_t> shown_;
  bool at_start_ = true;
  Utf8Stream utf8_;
};

}  // namespace tandem
