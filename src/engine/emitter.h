// From sampled ids to what the caller sees: stop rules and text of one row.
//
// A stop token counts as generated, but neither it nor its text is delivered. A
// stop string and what follows it is cut from the text; the tokens that spelled
// it are delivered. Before min_tokens, stop tokens are never chosen (see
// forbidden) and stop strings are not looked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sched/request.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace tandem {

class Emitter {
 public:
  // `model_stop_ids` are those of the model; the request may ignore them. The
  // tokenizer may be null (no text), and must outlive this.
  Emitter(const Request& request, std::span<const int32_t> model_stop_ids,
          const Tokenizer* tokenizer);

  // Ids that must not be sampled now.
  std::span<const int32_t> forbidden() const;

  // Takes a sampled token, adds what it makes visible to `event`, and says
  // whether the row ends with it. At the end all text held back is in `event`.
  FinishReason accept(TokenInfo token, Event& event);

  // The row ends without a further token: all text held back is in `event`.
  FinishReason finish_now(Event& event) { return finish(FinishReason::kStop, event); }

  int generated() const { return generated_; }

 private:
  bool is_stop(int32_t id) const;
  // Passes text through the stop strings. True when one ends the row.
  bool add_text(const std::string& text, Event& event);
  FinishReason finish(FinishReason reason, Event& event);

  std::vector<int32_t> stop_ids_;  // ascending
  std::vector<std::string> stop_;
  std::optional<Detokenizer> detokenizer_;  // none: ids only
  StopMatcher matcher_;
  int min_tokens_;
  int max_tokens_;
  int generated_ = 0;
};

}  // namespace tandem
