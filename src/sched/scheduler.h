// Which rows run in the next step, and which of their tokens. Integers only: no
// clock, no lock, no arrays; the engine measures, and passes what a step may cost.
//
//   waiting --next()--> running --finish()/cancel()--> gone
//
// - Decoding rows come first, one token each, and are never skipped. What is left
//   of the budget goes to prefilling rows, oldest first, in chunks.
// - Rows are admitted in the order of the queue; one that must wait holds back
//   those behind it. Higher priorities queue ahead of lower ones, but a row is
//   overtaken at most kOvertakenMax times.
// - A row is admitted when the pages it may ever hold are free of reservations,
//   so running rows can't deadlock over pages.
//
// A plain value: copyable, mutated by every call that is not const.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "sched/plan.h"

namespace tandem {

inline constexpr int kOvertakenMax = 64;

struct RowSpec {
  RowId id = 0;                 // never used before
  int32_t prompt_length = 0;    // at least 1
  int32_t max_tokens = 0;       // 0 = the prompt is computed, nothing is sampled
  int priority = 0;             // higher goes first
  bool prompt_outputs = false;  // logits of every prompt token are wanted
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

  // Most pages of the group that the row ever holds at once.
  int64_t pages_needed(const RowSpec& spec, const PageGroup& group) const;
  // Throws Error(kPoolExhausted) if the row would not fit even alone.
  void check_fits(const RowSpec& spec) const;
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerLimits limits);

  // Queues a row. Throws as SchedulerLimits::check_fits.
  void add(const RowSpec& spec);

  // Admits rows and plans a step; its tokens count as computed from here on.
  Plan next(const Budget& budget);

  // The row has one more token (sampled), which a later step is to compute.
  void advance(RowId row);
  // Takes a running row out of the batch.
  void finish(RowId row);
  // Takes a waiting or running row out.
  void cancel(RowId row);
  // A paused row keeps its place and its pages but is not planned.
  void pause(RowId row);
  void resume(RowId row);

  const SchedulerLimits& limits() const { return limits_; }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  int64_t pages_reserved(size_t group) const { return reserved_[group]; }

  // Aborts unless the reservations of running rows add up, within the limits.
  void check() const;

 private:
  struct Row {
    RowSpec spec;
    int32_t length = 0;    // known tokens: prompt and sampled
    int32_t computed = 0;  // of these, planned so far
    int overtaken = 0;
    bool paused = false;

    bool decoding() const { return computed >= spec.prompt_length; }
    bool due() const { return !paused && computed < length; }
  };

  void admit(Plan& plan);
  void reserve(const RowSpec& spec, int sign);
  static void plan_row(Row& row, int32_t count, Plan& plan);
  Row& running_row(RowId row);

  SchedulerLimits limits_;
  std::deque<Row> waiting_;
  std::vector<Row> running_;       // by age
  std::vector<int64_t> reserved_;  // pages, per group
};

}  // namespace tandem
