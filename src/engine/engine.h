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

#include <chrono>
#include <functional>
#include <memory>

#include "engine/latency.h"
#include "engine/load_model.h"
#include "engine/stream.h"
#include "sched/request.h"

namespace tandem {

struct EngineOptions {
  int max_rows = 16;      // rows in one step
  int step_tokens = 512;  // decoding rows and prompt chunks together; > max_rows
  int queue_max = 256;    // requests that may wait for a row
  // Floats of logits one step may make for prompt logprobs.
  int64_t step_logits_max = int64_t{8} << 20;
  // What a reader may leave unread before its row is paused.
  int stream_events_max = 32;
  int stream_tokens_max = 256;
  std::chrono::milliseconds stream_idle_max{30'000};
};

// A snapshot for /stats and /metrics. Counters only grow.
struct EngineStats {
  bool ready = false;  // loaded, not failed, not draining
  bool draining = false;
  int active_rows = 0;   // in the batch
  int waiting_rows = 0;  // submitted, not admitted
  int paused_rows = 0;   // active, their readers are behind
  int max_rows = 0;
  int64_t submitted = 0;
  int64_t refused = 0;  // queue full, draining or invalid
  int64_t finished_stop = 0;
  int64_t finished_length = 0;
  int64_t finished_cancelled = 0;
  int64_t finished_error = 0;
  int64_t prompt_tokens = 0;  // computed in prefill
  int64_t generated_tokens = 0;
  int64_t steps = 0;
  double last_step_ms = 0;
  double busy_ms = 0;     // all turns of the loop that ran a step, waiting left out
  double forward_ms = 0;  // of these, inside the model's forward pass
  double running_step_ms = 0;  // how long the step now running has taken; 0 = idle
  int64_t kv_pages_used = 0;   // all groups together
  int64_t kv_pages_reserved = 0;
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
  std::shared_ptr<Stream> submit(Request request);

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
