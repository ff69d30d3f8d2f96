// What the next step runs, in integers only: which rows, which of their tokens,
// and the pages they write to. Made by the scheduler, turned into arrays by the
// engine.
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
  std::vector<PlanRow> rows;    // decoding rows first, then prefilling ones, by age
  std::vector<RowId> admitted;  // rows that joined with this step
  int32_t tokens = 0;           // sum of counts

  bool empty() const { return rows.empty(); }
};

// What one step may cost.
struct Budget {
  int32_t tokens = 512;  // decode rows and prompt chunks together
  // Prompt tokens whose logits are wanted too (prompt logprobs): bounds their memory.
  int32_t prompt_outputs = 512;
};

}  // namespace tandem
