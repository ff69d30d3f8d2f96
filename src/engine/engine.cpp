#include "engine/engine.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "engine/core.h"
#include "engine/validate.h"

namespace tandem {

namespace {

void check_options(const EngineOptions& options) {
  const auto require = [](bool good, const std::string& message, const char* param) {
    if (!good) throw Error(ErrorCode::kInvalid, message, param);
  };
  require(options.max_rows > 0, "max_rows must be at least 1", "max_rows");
  require(options.step_tokens > options.max_rows,
          "step_tokens must be larger than max_rows (" + std::to_string(options.max_rows) +
              "), got " + std::to_string(options.step_tokens),
          "step_tokens");
  require(options.queue_max > 0, "queue_max must be at least 1", "queue_max");
  require(options.stream_events_max > 1 && options.stream_tokens_max > 1,
          "a stream must hold at least 2 events and 2 tokens", "stream_events_max");
}

// What of a request decides its lane. The batch carries all the rest.
RequestShape shape_of(const ResourceOwner& guide) { return {.grammar = guide.get() != nullptr}; }

Capabilities capabilities_of(const Model& model) {
  return {.caches = all_caches(model.info(), &CacheCapability::batchable),
          .states = !model.info().state_groups.empty()};
}

}  // namespace

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, std::function<LoadedModel()> load)
      : options_(options),
        route_settings_{.batch = options.max_rows,
                        .batch_states = options.batch_states,
                        .batch_grammar = options.batch_grammar},
        thread_([this, load = std::move(load)] { main(load); }) {}

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    doorbell_->ring();
    thread_.join();
  }

  void wait_ready() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return state_ != State::kLoading; });
    if (load_error_) std::rethrow_exception(load_error_);
  }

  bool ready() {
    std::lock_guard lock(mutex_);
    return state_ == State::kServing && !draining_;
  }

  const ModelCard& card() {
    std::lock_guard lock(mutex_);
    if (!loaded_) throw Error(ErrorCode::kUnavailable, "the model is not loaded yet");
    return card_;
  }

  std::shared_ptr<Stream> submit(Request request, SubmitOptions options);
  void run_exclusive(std::function<void(LoadedModel&)> body);
  bool wait_idle(std::chrono::milliseconds wait_max);
  EngineStats stats();
  const Latency& latency() const { return latency_; }
  bool drain(std::chrono::milliseconds deadline);

 private:
  enum class State { kLoading, kServing, kFailed };

  void main(const std::function<LoadedModel()>& load);
  void serve(Core& core);
  void loop(Core& core);
  // Hands new rows to the core. False when the thread is to end.
  bool take_in(Core& core);
  // Makes the core's counts known, then delivers final events.
  void publish(Core& core);
  void fail(const std::string& message);
  void require_serving();
  std::unique_ptr<Row> make_row(Request request, SubmitOptions& options, ResourceOwner& resource);
  bool nothing_to_do() const {
    return state_ != State::kServing || (inbox_.empty() && exclusive_inbox_.empty() && idle_);
  }

  const EngineOptions options_;
  const RouteSettings route_settings_;
  const std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  std::atomic<int64_t> step_began_ns_ = 0;  // 0 = no step runs

  std::mutex mutex_;  // what follows, to thread_
  std::condition_variable changed_;
  State state_ = State::kLoading;
  bool loaded_ = false;
  bool draining_ = false;
  bool cancelling_ = false;  // the drain's deadline has passed
  bool stopping_ = false;
  bool idle_ = true;  // the core has no rows, and all events are delivered
  std::exception_ptr load_error_;
  std::string failure_;
  ModelCard card_;             // immutable once loaded_
  SchedulerLimits limits_;     // same
  std::string why_serial_;     // same
  Capabilities capabilities_;  // same
  std::vector<std::unique_ptr<Row>> inbox_;
  std::vector<std::shared_ptr<ExclusiveWork>> exclusive_inbox_;
  EngineStats core_stats_;
  RowId next_id_ = 1;
  int64_t submitted_ = 0, refused_ = 0;
  std::array<int64_t, kErrorCodes> refused_by_code_{};

  Latency latency_;
  std::thread thread_;
};

void Engine::Impl::require_serving() {
  const char* why = draining_                   ? "the engine is shutting down"
                    : state_ == State::kLoading ? "the model is still loading"
                                                : nullptr;
  if (state_ == State::kFailed) throw Error(ErrorCode::kUnavailable, failure_);
  if (why) throw Error(ErrorCode::kUnavailable, why);
}

std::unique_ptr<Row> Engine::Impl::make_row(Request request, SubmitOptions& options,
                                            ResourceOwner& resource) {
  // Outside the lock: what is read of the model does not change any more.
  validate(request, card_, limits_);
  const ChannelLimits limits{static_cast<size_t>(options_.stream_events_max),
                             static_cast<size_t>(options_.stream_tokens_max)};
  RowId id = 0;
  {
    std::lock_guard lock(mutex_);
    id = next_id_++;
  }
  auto channel = std::make_shared<StreamChannel>(id, limits, doorbell_);
  const Route way = route(shape_of(resource), capabilities_, route_settings_);
  auto row = std::make_unique<Row>(std::move(request), std::move(channel), card_.stop_ids,
                                   card_.tokenizer.get());
  row->route = way;
  row->resource = std::move(resource);
  row->abort = std::move(options.abort);
  return row;
}

std::shared_ptr<Stream> Engine::Impl::submit(Request request, SubmitOptions options) {
  ResourceOwner resource(std::move(options.resource));
  if (options.abort && options.abort->load()) {
    throw Error(ErrorCode::kCancelled, "the request was aborted before it was submitted");
  }
  std::shared_ptr<StreamChannel> channel;
  try {
    {
      std::lock_guard lock(mutex_);
      require_serving();
    }
    auto row = make_row(std::move(request), options, resource);
    channel = row->channel;
    std::lock_guard lock(mutex_);
    require_serving();
    const int waiting = static_cast<int>(inbox_.size()) + core_stats_.waiting_rows;
    if (waiting >= options_.queue_max) {
      throw Error(ErrorCode::kQueueFull, std::to_string(waiting) +
                                             " requests are waiting already, which is the limit; "
                                             "try again later");
    }
    inbox_.push_back(std::move(row));
    ++submitted_;
  } catch (const Error& error) {
    std::lock_guard lock(mutex_);
    ++refused_;
    ++refused_by_code_[static_cast<size_t>(error.code())];
    throw;
  }
  doorbell_->ring();
  return std::make_shared<Stream>(std::move(channel));
}

void Engine::Impl::run_exclusive(std::function<void(LoadedModel&)> body) {
  INVARIANT(std::this_thread::get_id() != thread_.get_id());
  const auto work = std::make_shared<ExclusiveWork>(std::move(body));
  {
    std::lock_guard lock(mutex_);
    require_serving();
    exclusive_inbox_.push_back(work);
  }
  doorbell_->ring();
  work->wait();
}

bool Engine::Impl::wait_idle(std::chrono::milliseconds wait_max) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait_max, [this] { return nothing_to_do(); });
}

EngineStats Engine::Impl::stats() {
  std::lock_guard lock(mutex_);
  EngineStats stats = core_stats_;
  stats.ready = state_ == State::kServing && !draining_;
  stats.draining = draining_;
  stats.waiting_rows += static_cast<int>(inbox_.size());
  stats.max_rows = options_.max_rows;
  stats.batch_mode = batch_mode(capabilities_, route_settings_);
  stats.serial_because = why_serial_;
  stats.exclusive_waiting += static_cast<int>(exclusive_inbox_.size());
  stats.busy = !nothing_to_do();
  stats.locked |= stats.exclusive_waiting > 0;
  stats.submitted = submitted_;
  stats.refused = refused_;
  for (size_t code = 0; code < refused_by_code_.size(); ++code) {
    stats.errors[code] += refused_by_code_[code];
  }
  stats.weight_bytes = card_.weight_bytes;
  const int64_t began_ns = step_began_ns_.load(std::memory_order_relaxed);
  if (began_ns != 0) {
    const auto now = Clock::now().time_since_epoch();
    stats.running_step_ms =
        std::chrono::duration<double, std::milli>(now - std::chrono::nanoseconds(began_ns)).count();
  }
  return stats;
}

bool Engine::Impl::drain(std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto idle = [this] { return nothing_to_do(); };
  if (changed_.wait_for(lock, deadline, idle)) return true;
  cancelling_ = true;
  doorbell_->ring();
  changed_.wait(lock, idle);
  return false;
}

void Engine::Impl::main(const std::function<LoadedModel()>& load) {
  LoadedModel loaded;
  std::unique_ptr<Core> core;
  try {
    loaded = load();
    core = std::make_unique<Core>(options_, loaded, latency_);
    std::lock_guard lock(mutex_);
    card_ = loaded.card;
    limits_ = core->limits();
    capabilities_ = capabilities_of(*loaded.model);
    why_serial_ = why_not_batchable(loaded.model->info());
    loaded_ = true;
    core_stats_ = core->stats();
    state_ = State::kServing;
    changed_.notify_all();
  } catch (const std::exception& error) {
    std::lock_guard lock(mutex_);
    load_error_ = std::current_exception();
    state_ = State::kFailed;
    failure_ = std::string("the model could not be loaded: ") + error.what();
    changed_.notify_all();
    return;
  }
  serve(*core);
}

void Engine::Impl::serve(Core& core) {
  try {
    loop(core);
  } catch (const std::exception& error) {
    // Errors of a row or a step are dealt with in Core: this one is ours.
    fail(std::string("the engine has failed: ") + error.what());
    for (auto& row : inbox_) core.add(std::move(row));
    inbox_.clear();
    for (auto& work : exclusive_inbox_) core.add(std::move(work));
    exclusive_inbox_.clear();
    core.fail_all(failure_);
    publish(core);
  }
}

void Engine::Impl::loop(Core& core) {
  Clock::time_point turn_began = Clock::now();
  while (take_in(core)) {
    core.sweep();
    const bool due = core.plan_step();
    publish(core);
    if (!due) {
      doorbell_->wait_until(core.next_deadline());
      turn_began = Clock::now();
      continue;
    }
    step_began_ns_.store(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1),
                         std::memory_order_relaxed);
    core.run_step();
    step_began_ns_.store(0, std::memory_order_relaxed);
    const Clock::time_point now = Clock::now();
    core.count_turn(std::chrono::duration<double, std::milli>(now - turn_began).count());
    turn_began = now;
    publish(core);
  }
  core.cancel_all();
  publish(core);
}

bool Engine::Impl::take_in(Core& core) {
  std::vector<std::unique_ptr<Row>> rows;
  std::vector<std::shared_ptr<ExclusiveWork>> exclusive;
  bool stopping = false, cancelling = false;
  {
    std::lock_guard lock(mutex_);
    rows.swap(inbox_);
    exclusive.swap(exclusive_inbox_);
    // Until they are published they must count as waiting.
    core_stats_.waiting_rows += static_cast<int>(rows.size());
    if (!rows.empty() || !exclusive.empty()) idle_ = false;
    stopping = stopping_;
    cancelling = cancelling_;
  }
  for (auto& row : rows) core.add(std::move(row));
  for (auto& work : exclusive) core.add(std::move(work));
  if (cancelling) core.cancel_all();
  return !stopping;
}

void Engine::Impl::publish(Core& core) {
  const EngineStats stats = core.stats();
  {
    std::lock_guard lock(mutex_);
    core_stats_ = stats;
  }
  core.deliver_finals();
  if (!core.empty()) return;
  std::lock_guard lock(mutex_);
  idle_ = true;
  changed_.notify_all();
}

void Engine::Impl::fail(const std::string& message) {
  std::lock_guard lock(mutex_);
  state_ = State::kFailed;
  failure_ = message;
  changed_.notify_all();
}

Engine::Engine(const EngineOptions& options, std::function<LoadedModel()> load) {
  check_options(options);
  impl_ = std::make_unique<Impl>(options, std::move(load));
}

Engine::~Engine() = default;

void Engine::wait_ready() const { impl_->wait_ready(); }

bool Engine::ready() const { return impl_->ready(); }

const ModelCard& Engine::card() const { return impl_->card(); }

std::shared_ptr<Stream> Engine::submit(Request request, SubmitOptions options) {
  return impl_->submit(std::move(request), std::move(options));
}

void Engine::run_exclusive(std::function<void(LoadedModel&)> body) {
  impl_->run_exclusive(std::move(body));
}

bool Engine::wait_idle(std::chrono::milliseconds wait_max) { return impl_->wait_idle(wait_max); }

EngineStats Engine::stats() const { return impl_->stats(); }

const Latency& Engine::latency() const { return impl_->latency(); }

bool Engine::drain(std::chrono::milliseconds deadline) { return impl_->drain(deadline); }

}  // namespace tandem
