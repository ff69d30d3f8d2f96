// Runs one model for many callers: continuous batching over a flat, ragged step.
//
// One engine thread owns the model, the page pools and the scheduler; callers
// submit requests from any thread and read a Stream each. Each turn of the loop
// takes in new requests, asks the scheduler for a plan, runs one forward pass,
// samples every row that is due and delivers what came of it.
//
// A row's result never depends on the other rows, on how its prompt was cut
// into chunks, or on when it ran (as far as the backend keeps that promise).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "engine/latency.h"
#include "engine/load_model.h"
#include "engine/stream.h"
#include "sched/request.h"
#include "sched/route.h"
#include "sched/row_resource.h"

namespace tandem {

struct EngineOptions {
  int max_rows = 16;      // rows in one step; 1 = every row has its steps alone
  int step_tokens = 512;  // decoding rows and prompt chunks together; > max_rows
  int queue_max = 256;    // requests that may wait for a row
  // Floats of logits one step may make for prompt logprobs.
  int64_t step_logits_max = int64_t{8} << 20;
  // What a reader may leave unread before its row is paused.
  int stream_events_max = 32;
  int stream_tokens_max = 256;
  std::chrono::milliseconds stream_idle_max{30'000};
  // Kill switches: such requests then go one at a time.
  bool batch_states = switched_on("TANDEM_BATCH_SSM");
  bool batch_grammar = switched_on("TANDEM_GRAMMAR_BATCH");
};

struct SubmitOptions {
  // The engine's from the call on, also when it throws: disposed of exactly once.
  std::unique_ptr<RowResource> resource;
  // Looked at when the request is submitted and before each step; may be null. One
  // that is true already lets the request reach neither lane.
  std::shared_ptr<const std::atomic<bool>> abort;
};

// A snapshot for /stats and /metrics. Counters only grow.
struct EngineStats {
  bool ready = false;  // loaded, not failed, not draining
  bool draining = false;
  int active_rows = 0;   // in the batch
  int waiting_rows = 0;  // submitted, not admitted
  int paused_rows = 0;   // active, their readers are behind
  int max_rows = 0;
  const char* batch_mode = "off";  // off, serial or batch: see route.h
  bool locked = false;             // the exclusive domain is held or waited for
  int exclusive_waiting = 0;       // pieces of exclusive work
  bool busy = false;               // locked, or rows run or wait
  int64_t submitted_batch = 0;     // rows, by lane
  int64_t submitted_serial = 0;
  std::array<int64_t, kSerialReasons> serial_reasons{};  // rows, by SerialReason
  int64_t submitted = 0;
  int64_t refused = 0;  // queue full, draining or invalid
  int64_t finished_stop = 0;
  int64_t finished_length = 0;
  int64_t finished_cancelled = 0;
  int64_t finished_error = 0;
  int64_t prompt_tokens = 0;  // computed in prefill
  int64_t generated_tokens = 0;
  int64_t steps = 0;
  int64_t preemptions = 0;  // rows that had to give their pages back for a while
  double last_step_ms = 0;
  double busy_ms = 0;          // all turns of the loop that ran a step, waiting left out
  double forward_ms = 0;       // of these, inside the model's forward pass
  double running_step_ms = 0;  // how long the step now running has taken; 0 = idle
  int64_t kv_pages_used = 0;   // all groups together
  int64_t kv_pages_total = 0;  // what the pools may grow to
  int64_t kv_bytes_used = 0;
  int64_t kv_bytes_total = 0;
  int64_t weight_bytes = 0;
};

class Engine {
 public:
  // Starts the engine thread, which calls `load` there, and returns at once.
  // Throws Error(kInvalid) when the options contradict each other.
  Engine(const EngineOptions& options, std::function<LoadedModel()> load);
  // Cancels what runs, with a final event for each, and joins.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Blocks until the model is loaded; throws what `load` threw.
  void wait_ready() const;
  bool ready() const;

  // What was loaded. Error(kUnavailable) while loading.
  const ModelCard& card() const;

  // Queues a request. Any thread. max_tokens is clamped to the context. Throws
  //   Error(kInvalid)       empty prompt, an id out of range, a bad parameter
  //   Error(kUnsupported)   stop strings without a tokenizer
  //   Error(kContextLength) prompt plus one token does not fit
  //   Error(kPoolExhausted) more pages than there will ever be
  //   Error(kQueueFull)     too many wait
  //   Error(kUnavailable)   loading, failed or draining
  //   Error(kCancelled)     aborted already
  std::shared_ptr<Stream> submit(Request request, SubmitOptions options = {});

  // Runs `body` on the engine thread with no row under way, and returns when it has
  // run; throws what it threw. New rows wait meanwhile; those that have begun finish
  // first. Any thread but the engine's. Throws Error(kUnavailable) as submit does, or
  // when the engine ends before its turn comes.
  void run_exclusive(std::function<void(LoadedModel&)> body);

  // Waits until nothing runs or waits. True at once if that is so now; false when the
  // time is up.
  bool wait_idle(std::chrono::milliseconds wait_max);

  EngineStats stats() const;
  const Latency& latency() const;

  // Refuses new work, lets running and waiting rows finish, and cancels those
  // left at the deadline. True when none had to be. The engine stays drained.
  bool drain(std::chrono::milliseconds deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
