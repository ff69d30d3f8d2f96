// The engine thread's own state: the model, the rows and the scheduler. Nothing
// here is locked; Engine hands rows over and reads the results back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "cache/ledger.h"
#include "engine/engine.h"
#include "engine/exclusive_work.h"
#include "engine/kv_pools.h"
#include "engine/prefix_cache.h"
#include "engine/row.h"
#include "engine/step_arrays.h"
#include "engine/step_cost.h"
#include "sampling/sampler.h"
#include "sched/gateway.h"
#include "sched/scheduler.h"

namespace tandem {

class Core {
 public:
  // All must outlive this.
  Core(const EngineOptions& options, LoadedModel& loaded, Latency& latency);

  // Takes a row in. It is answered with a final event, whatever happens.
  void add(std::unique_ptr<Row> row);
  // Runs it when the batch is empty and nothing asked earlier. It is done or failed in
  // the end, whatever happens.
  void add(std::shared_ptr<ExclusiveWork> work);
  // Takes out rows that were cancelled or whose reader has been idle for too
  // long, and resumes those whose reader has caught up.
  void sweep();
  // Admits rows and plans a step. False when no row is due.
  bool plan_step();
  // Runs what was planned.
  void run_step();
  // Counts a turn of the engine's loop that ran a step.
  void count_turn(double ms) { stats_.busy_ms += ms; }
  // Ends every row, and fails exclusive work that has not run.
  void cancel_all();
  void fail_all(const std::string& message);

  // Delivers the final events of rows that have ended since the last call. Until
  // then their readers wait, so that what they ask for next is up to date.
  void deliver_finals();

  bool empty() const { return rows_.empty() && exclusive_.empty(); }
  // When the first paused row runs into its idle limit.
  Clock::time_point next_deadline() const;
  // Counts of this thread's part; the rest is Engine's.
  EngineStats stats() const;
  const SchedulerLimits& limits() const { return pools_.limits(); }

  // Aborts unless pages, reservations and rows are in order.
  void check() const;

 private:
  void refresh_pages();
  // Finds out who may run now; exclusive work whose turn it is runs here.
  void take_turn();
  void fail_exclusive(const std::string& message);
  void admit_rows();
  // Looks the row up in the cache and lets it in, if it fits. A row of which others
  // compute a part just now holds off.
  bool try_admit(RowId id);
  LedgerSnapshot account() const;
  void wake_followers(bool concerned) { reconsider_ |= concerned; }
  // Takes the pages of a row that the scheduler has put back into the queue.
  void preempt(RowId id);
  // Readers that are behind must not keep other rows from running: preempts a row of
  // theirs if only such rows have a place and another could run.
  bool take_from_paused();
  std::vector<StepRow> place();
  void cover(Row& row, const PlanRow& planned);
  void forward(std::span<const StepRow> parts);
  void sample(const StepRow& part, std::span<const float> logits);
  // Picks the row's next token and says whether the row ends with it.
  FinishReason choose(Row& row, std::span<const float> logits, int32_t position, Event& event);
  void observe_token(Row& row);
  void score_prompt(const StepRow& part, std::span<const float> logits, Event& event);
  void deliver(Row& row, Event event);
  void end(Row& row, FinishReason reason, Event event);
  void fail(Row& row, ErrorCode code, const std::string& message);
  // Runs `body`; what it throws ends this row and no other. False when it threw.
  bool guarded(Row& row, const std::function<void()>& body);

  const EngineOptions& options_;
  LoadedModel& loaded_;
  Latency& latency_;
  const int64_t vocab_size_;
  KvPools pools_;
  PrefixCache prefix_;
  mutable Ledger ledger_;    // brought up to date when it is shown
  bool reconsider_ = false;  // rows that held off may find more in the cache now
  Scheduler scheduler_;
  Gateway gateway_;
  Gateway::Turn turn_;
  StepCost step_cost_;
  Budget budget_;
  Plan plan_;
  StepArrays arrays_;
  Sampler sampler_;
  std::unordered_map<RowId, std::unique_ptr<Row>> rows_;
  std::map<int64_t, std::shared_ptr<ExclusiveWork>> exclusive_;  // by negative ticket
  int64_t last_exclusive_ = 0;
  struct Final {
    std::shared_ptr<StreamChannel> channel;
    Event event;
  };
  std::vector<Final> finals_;
  EngineStats stats_;
};

}  // namespace tandem
