// How long requests and tokens take, as histograms. Written by the engine
// thread, read by any.
#pragma once

#include "base/histogram.h"
#include "sched/request.h"

namespace tandem {

struct Latency {
  // Seconds
  Histogram time_to_first_token{log_bounds(0.001, 100, 3)};  // from submission
  Histogram inter_token{log_bounds(0.0001, 10, 3)};
  Histogram end_to_end{log_bounds(0.01, 1000, 3)};
  Histogram queue{log_bounds(0.0001, 100, 3)};
  Histogram prefill{log_bounds(0.001, 100, 3)};
  Histogram decode{log_bounds(0.001, 1000, 3)};
  // Tokens
  Histogram prompt_tokens{log_bounds(1, 1e6, 3)};
  Histogram generated_tokens{log_bounds(1, 1e6, 3)};

  // A row that ended with all of its answer, not one cancelled or failed.
  void finished(const Usage& usage) {
    queue.observe(usage.queue_ms / 1e3);
    prefill.observe(usage.prefill_ms / 1e3);
    decode.observe(usage.decode_ms / 1e3);
    end_to_end.observe((usage.queue_ms + usage.prefill_ms + usage.decode_ms) / 1e3);
    prompt_tokens.observe(usage.prompt_tokens);
    generated_tokens.observe(usage.generated_tokens);
  }
};

}  // namespace tandem
