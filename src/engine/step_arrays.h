// The arrays behind a Step, filled from the rows of a plan and reused from step
// to step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step.h"
#include "engine/row.h"

namespace tandem {

// A row's part of the step: tokens [begin, begin + count) of its sequence.
struct StepRow {
  Row* row = nullptr;
  int32_t begin = 0;
  int32_t count = 0;
  bool samples = false;

  // Tokens of the part whose logits score the next prompt token, [first, end) of the
  // part; those scored before the row was preempted are not among them.
  int32_t scoring_first() const;
  int32_t scoring_end() const;
  int32_t scoring() const { return scoring_end() - scoring_first(); }
};

class StepArrays {
 public:
  // The Step borrows from this and from the rows' page lists.
  // Outputs come row by row: scoring() prompt tokens, then the sampling one.
  const Step& build(std::span<const StepRow> rows, const KvPools& pools);

 private:
  void add_row(const StepRow& part);
  void add_tables(std::span<const StepRow> rows, const KvPools& pools);

  std::vector<int32_t> tokens_, positions_, token_row_, row_start_, prompt_length_, state_slot_,
      outputs_;
  struct Table {
    std::vector<int32_t> pages, row_start;
  };
  std::vector<Table> tables_;
  std::vector<BlockTable> views_;
  Step step_;
};

}  // namespace tandem
