#include "engine/stream.h"

#include "engine/stream_channel.h"

namespace tandem {

void Doorbell::ring() {
  {
    std::lock_guard lock(mutex_);
    rung_ = true;
  }
  rung_cv_.notify_one();
}

void Doorbell::wait_until(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  rung_cv_.wait_until(lock, until, [this] { return rung_; });
  rung_ = false;
}

StreamChannel::StreamChannel(RowId id, ChannelLimits limits, std::shared_ptr<Doorbell> doorbell)
    : id_(id), limits_(limits), doorbell_(std::move(doorbell)) {}

// Calls the listener, which is dropped if it throws.
void StreamChannel::call_listener() {
  const auto listener = listener_;  // the call may replace it
  if (!listener) return;
  try {
    (*listener)();
  } catch (...) {
    listener_ = nullptr;
    throw;
  }
}

void StreamChannel::push(Event event) {
  {
    std::lock_guard lock(mutex_);
    queued_tokens_ += event.tokens.size() + event.prompt.size();
    queue_.push_back(std::move(event));
  }
  arrived_.notify_all();
  std::lock_guard lock(listener_mutex_);
  call_listener();
}

bool StreamChannel::over(size_t events_max, size_t tokens_max) const {
  return queue_.size() > events_max || queued_tokens_ > tokens_max;
}

bool StreamChannel::full() {
  std::lock_guard lock(mutex_);
  paused_ = over(limits_.events_max - 1, limits_.tokens_max - 1);
  return paused_;
}

bool StreamChannel::caught_up() {
  std::lock_guard lock(mutex_);
  if (over(limits_.events_max / 2, limits_.tokens_max / 2)) return false;
  paused_ = false;
  return true;
}

Clock::time_point StreamChannel::last_taken() const {
  std::lock_guard lock(mutex_);
  return last_taken_;
}

void StreamChannel::pop(Event& event) {
  event = std::move(queue_.front());
  queue_.pop_front();
  queued_tokens_ -= event.tokens.size() + event.prompt.size();
  final_taken_ = event.finish != FinishReason::kNone;
  last_taken_ = Clock::now();
}

bool StreamChannel::take(Event& event, Clock::time_point until) {
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    const auto done = [this] { return !queue_.empty() || final_taken_; };
    if (until == Clock::time_point::max()) {
      arrived_.wait(lock, done);
    } else {
      arrived_.wait_until(lock, until, done);
    }
    if (queue_.empty()) return false;
    pop(event);
    wake = paused_;
  }
  if (wake) doorbell_->ring();
  return true;
}

bool StreamChannel::finished() const {
  std::lock_guard lock(mutex_);
  return final_taken_;
}

void StreamChannel::cancel() {
  if (!cancelled_.exchange(true, std::memory_order_acq_rel)) doorbell_->ring();
}

void StreamChannel::set_listener(std::function<void()> listener) {
  auto shared = listener ? std::make_shared<std::function<void()>>(std::move(listener)) : nullptr;
  std::lock_guard lock(listener_mutex_);
  listener_ = shared;
  if (!shared) return;
  bool waiting = false;
  {
    std::lock_guard queue_lock(mutex_);
    waiting = !queue_.empty();
  }
  if (waiting) call_listener();
}

Stream::Stream(std::shared_ptr<StreamChannel> channel) : channel_(std::move(channel)) {}

Stream::~Stream() {
  channel_->set_listener({});
  channel_->cancel();
}

RowId Stream::id() const { return channel_->id(); }

bool Stream::try_next(Event& event) { return channel_->take(event, Clock::time_point::min()); }

bool Stream::next(Event& event) { return channel_->take(event, Clock::time_point::max()); }

bool Stream::next_for(Event& event, std::chrono::milliseconds wait_max) {
  return channel_->take(event, Clock::now() + wait_max);
}

bool Stream::finished() const { return channel_->finished(); }

void Stream::cancel() { channel_->cancel(); }

void Stream::set_listener(std::function<void()> listener) {
  channel_->set_listener(std::move(listener));
}

}  // namespace tandem
