// The reader's end of one row: a bounded queue of events from the engine thread.
//
// Backpressure: when the queue is full the row is paused (other rows go on);
// when the reader then takes nothing for EngineOptions::stream_idle_max, the row
// is cancelled. Dropping the last reference to a Stream cancels its row too.
// All calls are thread-safe; events go to whoever takes them first.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "sched/plan.h"
#include "sched/request.h"

namespace tandem {

class StreamChannel;

class Stream {
 public:
  explicit Stream(std::shared_ptr<StreamChannel> channel);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  RowId id() const;

  // Takes the oldest event. False when nothing waits now.
  bool try_next(Event& event);

  // Blocks for an event. False once the final event (finish is not kNone) has
  // been taken: `while (stream.next(event)) ...` sees every event once.
  bool next(Event& event);

  // Same with a time limit; false also when the time is up.
  bool next_for(Event& event, std::chrono::milliseconds wait_max);

  // True once the final event has been taken.
  bool finished() const;

  // The row leaves the batch at the next step boundary, waiting or running, and
  // its final event says kCancelled.
  void cancel();

  // Called from the engine thread after an event has arrived, and at once from
  // the calling thread if some wait already. It must be quick: post to the
  // reader's own executor. It may call anything here but next and next_for, and
  // may drop the stream. A listener that throws (out of
  // set_listener, when called at once) is dropped and, on the engine thread,
  // loses its row, no other. After set_listener({}) returns no call is in flight on another thread.
  void set_listener(std::function<void()> listener);

 private:
  std::shared_ptr<StreamChannel> channel_;
};

}  // namespace tandem
