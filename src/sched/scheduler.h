// Which rows run in the next step, and which of their tokens. Integers only: no
// clock, no lock, no arrays; the engine measures, owns the pages, and passes what a
// step may cost.
//
//   waiting --admit()--> running --finish()/cancel()--> gone
//      ^------preempt()-----'
//
// Before each step the engine preempts while short_of_pages(), admits candidate()
// while can_admit(), and then asks for next().
//
// - Decoding rows come first, one token each, and are never skipped. What is left
//   of the budget goes to the other rows, oldest first, in chunks.
// - Rows are admitted in the order of the queue; one that must wait holds back
//   those behind it. Higher priorities queue ahead of lower ones, but a row is
//   overtaken at most kOvertakenMax times.
// - A row holds only the pages of what is computed. It is admitted when the pages of
//   all its known tokens are there, and a few more, so that rows which run can go on.
// - When pages run out the youngest row goes back to the front of the queue. It
//   keeps its tokens, and computes them again (or finds them in the cache) later. The
//   oldest row always goes on, so all rows finish.
//
// A plain value: copyable, mutated by every call that is not const.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "sched/limits.h"
#include "sched/plan.h"

namespace tandem {

inline constexpr int kOvertakenMax = 64;

class Scheduler {
 public:
  explicit Scheduler(SchedulerLimits limits);

  // Queues a row. Throws as SchedulerLimits::check_fits.
  void add(const RowSpec& spec);

  // True when the rows that run can't all go on with the pages there are.
  bool short_of_pages(const Budget& budget) const;
  // Puts a row back to the front of the queue; the engine takes its pages. Without an
  // id the youngest: of the paused rows, or if none is, of all. There must be one.
  RowId preempt();
  void preempt(RowId row);

  // The row that is to be admitted next, if one waits; `preempted_only` passes over
  // rows that have never run.
  std::optional<RowId> candidate(bool preempted_only = false) const;
  // Are there a place and pages enough for that row, of which `hit` is computed already?
  bool can_admit(RowId row, const PrefixHit& hit, const Budget& budget) const;
  void admit(RowId row, const PrefixHit& hit = {});

  // Plans a step; its tokens count as computed from here on.
  Plan next(const Budget& budget);

  // The row has one more token (sampled), which a later step is to compute.
  void advance(RowId row);
  // The row's next `tokens` tokens, not to its last, are in its pages already.
  void skip(RowId row, int32_t tokens);
  // Takes a running row out of the batch.
  void finish(RowId row);
  // Takes a waiting or running row out.
  void cancel(RowId row);
  // A paused row is not planned, and not admitted; it keeps its place and its pages.
  void pause(RowId row);
  void resume(RowId row);

  const SchedulerLimits& limits() const { return limits_; }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  // Rows that run or have run, and are not solo.
  int started() const;
  bool is_running(RowId row) const;
  // True when rows run, and all of them are paused.
  bool all_paused() const;
  // Tokens of a running row that are planned or computed.
  int32_t computed(RowId row) const;

  // Aborts unless the books are in order.
  void check() const;

 private:
  struct Row {
    RowSpec spec;
    int32_t length = 0;    // known tokens: prompt and sampled
    int32_t computed = 0;  // of these, planned so far
    int64_t age = 0;       // of first admission, ascending; 0 = never admitted
    int overtaken = 0;
    bool paused = false;

    bool due() const { return !paused && computed < length; }
    // Only the token sampled last is missing.
    bool decoding() const { return computed >= spec.prompt_length && length - computed == 1; }
  };

  int64_t pages_outstanding(const PageGroup& group) const;
  int64_t watermark(const PageGroup& group) const;
  // Most tokens from `begin` that `pages` pages per group have room for.
  int32_t room(int32_t begin, std::span<const int64_t> pages) const;
  void take(const Row& row, int32_t count, std::vector<int64_t>& pages) const;
  static void plan_row(Row& row, int32_t count, Plan& plan);
  const Row& row(RowId id) const;  // waiting or running
  Row& row(RowId id);
  Row& running_row(RowId row);

  SchedulerLimits limits_;
  std::deque<Row> waiting_;
  std::vector<Row> running_;  // by age
  int64_t last_age_ = 0;
};

}  // namespace tandem
