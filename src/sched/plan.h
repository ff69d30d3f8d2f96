// What the next step runs, in integers only: which rows, and which of their
// tokens. Made by the scheduler, turned into arrays by the engine.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

using RowId = int64_t;

// Tokens [begin, begin + count) of one row's sequence (prompt + generated).
struct PlanRow {
  RowId row = 0;
  int32_t begin = 0;
  int32_t count = 0;
  // The last of these is the last known token: its logits give the next one.
  bool samples = false;
};

struct Plan {
  std::vector<PlanRow> rows;  // decoding rows first, then the others, by age
  int32_t tokens = 0;         // sum of counts
  int32_t decoding = 0;       // rows that compute the one token sampled last

  bool empty() const { return rows.empty(); }
};

// What one step may cost.
struct Budget {
  int32_t tokens = 512;  // decoding rows and chunks together
  // Of these for chunks while rows decode: bounds how long the rows that decode wait
  // for their next token. At least 1.
  int32_t chunk_tokens = 512;
  // Prompt tokens whose logits are wanted too (prompt logprobs): bounds their memory.
  int32_t prompt_outputs = 512;
  // Per group: pages that could be handed out now (free, evictable, or still to grow).
  std::vector<int64_t> pages;
};

// The part of a waiting row's tokens that the cache holds already.
struct PrefixHit {
  int32_t tokens = 0;  // less than the row has
  // Per group: what taking them lowers Budget::pages by: cached pages that can't be
  // evicted any more, and the copy of a partly filled one. Empty = none.
  std::vector<int64_t> pages;
};

}  // namespace tandem
