// What decides with the model which token a row may generate next: a grammar, or
// a budget for its reasoning.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sched/row_resource.h"

namespace tandem {

// Driven by the engine thread, a token at a time: forced or mask, then accept.
class TokenGuide : public RowResource {
 public:
  // The token that must come next, whatever the model says.
  virtual std::optional<int32_t> forced() = 0;

  // Bit i % 32 of word i / 32 is set if token i may come next; empty: any may. It is
  // computed on another thread from the last accept on; this waits for it. Throws
  // what computing it threw.
  virtual std::span<const uint32_t> mask() = 0;

  // The token that was chosen. Starts computing the next mask.
  virtual void accept(int32_t id) = 0;

  // Nothing may follow: the row has all it may have.
  virtual bool terminated() = 0;
};

}  // namespace tandem
