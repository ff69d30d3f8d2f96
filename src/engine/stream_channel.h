// What a Stream and the engine thread share: the bounded queue of one row.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "sched/plan.h"
#include "sched/request.h"

namespace tandem {

using Clock = std::chrono::steady_clock;

// Wakes the engine thread when it has nothing to run. Outlives the engine as
// long as a stream is held.
class Doorbell {
 public:
  void ring();
  // Returns when it has been rung since the last wait, or at `until`.
  void wait_until(Clock::time_point until);

 private:
  std::mutex mutex_;
  std::condition_variable rung_cv_;
  bool rung_ = false;
};

struct ChannelLimits {
  size_t events_max = 32;
  size_t tokens_max = 256;
};

class StreamChannel {
 public:
  StreamChannel(RowId id, ChannelLimits limits, std::shared_ptr<Doorbell> doorbell);

  RowId id() const { return id_; }

  // --- Engine thread -------------------------------------------------------
  // Queues the event, however full the queue is, and calls the listener. What
  // the listener throws comes through; it is not called again.
  void push(Event event);
  // True when the row should be paused: the reader is behind. It is then told
  // apart by caught_up() when to resume; taking rings the doorbell meanwhile.
  bool full();
  bool caught_up();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  Clock::time_point last_taken() const;

  // --- Reader --------------------------------------------------------------
  bool take(Event& event, Clock::time_point until);
  bool finished() const;
  void cancel();
  void set_listener(std::function<void()> listener);

 private:
  bool over(size_t events_max, size_t tokens_max) const;
  void pop(Event& event);
  void call_listener();

  const RowId id_;
  const ChannelLimits limits_;
  const std::shared_ptr<Doorbell> doorbell_;
  std::atomic<bool> cancelled_ = false;

  mutable std::mutex mutex_;  // what follows, to listener_mutex_
  std::condition_variable arrived_;
  std::deque<Event> queue_;
  size_t queued_tokens_ = 0;
  bool paused_ = false;  // the engine waits for the reader
  bool final_taken_ = false;
  Clock::time_point last_taken_ = Clock::now();

  std::recursive_mutex listener_mutex_;  // held during a call
  std::shared_ptr<std::function<void()>> listener_;
};

}  // namespace tandem
