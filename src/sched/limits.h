// How many rows and pages there are, and what a row needs of them.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/plan.h"

namespace tandem {

struct RowSpec {
  RowId id = 0;                 // never used before
  int32_t prompt_length = 0;    // at least 1
  int32_t max_tokens = 0;       // 0 = the prompt is computed, nothing is sampled
  int priority = 0;             // higher goes first
  bool prompt_outputs = false;  // logits of every prompt token are wanted
  bool solo = false;            // runs alone: candidate() passes over it
};

// Pages of one cache group, and its sliding window (0 = all tokens).
struct PageGroup {
  int64_t pages = 0;
  int32_t window = 0;
};

struct SchedulerLimits {
  int32_t max_rows = 16;
  int32_t page_tokens = 32;
  int32_t step_tokens = 512;  // no Budget is larger; more than max_rows
  std::vector<PageGroup> groups;

  int64_t pages_of(int64_t tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  // Pages that a row takes when its tokens [begin, end) are computed; those behind a
  // window are given back on the way.
  int64_t pages_between(int64_t begin, int64_t end, const PageGroup& group) const;
  // Most pages of the group that the row ever holds at once.
  int64_t pages_needed(const RowSpec& spec, const PageGroup& group) const;
  // Throws Error(kPoolExhausted) if the row would not fit even alone.
  void check_fits(const RowSpec& spec) const;
};

}  // namespace tandem
