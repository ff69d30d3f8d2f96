#include "engine/core.h"

#include <algorithm>
#include <utility>

#include "sampling/logprobs.h"
#include "sched/token_guide.h"

namespace tandem {

namespace {

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

Usage usage_of(const Row& row) {
  const Clock::time_point now = Clock::now();
  const bool decoding = row.emitter.generated() > 0;
  Usage usage;
  usage.prompt_tokens = row.prompt_length();
  usage.cached_tokens = row.cached_tokens;
  usage.generated_tokens = row.emitter.generated();
  usage.preemptions = row.preemptions;
  usage.route = row.route;
  usage.queue_ms = ms_between(row.submitted_at, row.admitted ? row.admitted_at : now);
  if (row.admitted) {
    usage.prefill_ms = ms_between(row.admitted_at, decoding ? row.first_token_at : now);
  }
  if (decoding) usage.decode_ms = ms_between(row.first_token_at, now);
  return usage;
}

KvPoolOptions pool_options(const EngineOptions& options, const ModelCard& card,
                           const ModelInfo& info) {
  return {.codec = card.kv_codec,
          .bytes_max = card.kv_bytes_max,
          .max_rows = options.max_rows,
          .context_length = card.context_length,
          .step_tokens = options.step_tokens,
          .checkpoints_max = PrefixCache::checkpoints_max(info, options.prompt_cache_bytes)};
}

PrefixCacheOptions prefix_options(const EngineOptions& options, const ModelCard& card,
                                  const ModelInfo& info) {
  return {
      .bytes_max = all_caches(info, &CacheCapability::shareable) ? options.prompt_cache_bytes : 0,
      .parts = {.kv_scheme = std::string(kv_codec_name(card.kv_codec)) + " " + card.kv_scheme}};
}

}  // namespace

Core::Core(const EngineOptions& options, LoadedModel& loaded, Latency& latency)
    : options_(options),
      loaded_(loaded),
      latency_(latency),
      vocab_size_(loaded.model->info().vocab_size),
      pools_(loaded.model->info(), *loaded.backend,
             pool_options(options, loaded.card, loaded.model->info())),
      prefix_(pools_, prefix_options(options, loaded.card, loaded.model->info())),
      ledger_(loaded.backend->weight_bytes() + loaded.card.kv_bytes_max),
      scheduler_(pools_.limits()) {
  budget_.tokens = options.step_tokens;
  budget_.prompt_outputs = static_cast<int32_t>(
      std::clamp<int64_t>(options.step_logits_max / vocab_size_, 1, options.step_tokens));
}

bool Core::guarded(Row& row, const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    fail(row, error.code(), error.what());
  } catch (const std::exception& error) {
    fail(row, ErrorCode::kInternal, error.what());
  }
  return false;
}

void Core::add(std::unique_ptr<Row> owned) {
  Row& row = *owned;
  const RowId id = row.id();
  const bool serial = row.route.lane == Lane::kSerial;
  row.pages = pools_.make_row();
  scheduler_.add({.id = id,
                  .prompt_length = row.prompt_length(),
                  .max_tokens = row.request.max_tokens,
                  .priority = row.request.priority,
                  .prompt_outputs = row.wants_prompt_logprobs(),
                  .solo = serial});
  if (serial) gateway_.request(id);
  ++(serial ? stats_.submitted_serial : stats_.submitted_batch);
  for (SerialReason reason : row.route.reasons) {
    ++stats_.serial_reasons[static_cast<size_t>(reason)];
  }
  rows_.emplace(id, std::move(owned));
}

void Core::add(std::shared_ptr<ExclusiveWork> work) {
  const int64_t ticket = --last_exclusive_;
  gateway_.request(ticket);
  exclusive_.emplace(ticket, std::move(work));
}

void Core::sweep() {
  const Clock::time_point now = Clock::now();
  std::vector<Row*> cancelled, idle;
  for (auto& [id, row] : rows_) {
    if (row->cancelled()) {
      cancelled.push_back(row.get());
    } else if (row->paused && row->channel->caught_up()) {
      row->paused = false;
      scheduler_.resume(id);
      if (std::exchange(row->made_way, false)) gateway_.request_again(id);
    } else if (row->paused && now - row->channel->last_taken() >= options_.stream_idle_max) {
      idle.push_back(row.get());
    }
  }
  for (Row* row : cancelled) end(*row, FinishReason::kCancelled, {});
  for (Row* row : idle) {
    Event event;
    event.error_code = static_cast<int>(ErrorCode::kCancelled);
    event.error =
        "the reader took nothing for " + std::to_string(options_.stream_idle_max.count()) + " ms";
    end(*row, FinishReason::kCancelled, std::move(event));
  }
}

Clock::time_point Core::next_deadline() const {
  Clock::time_point deadline = Clock::now() + std::chrono::hours(1);
  for (const auto& [id, row] : rows_) {
    if (!row->paused) continue;
    deadline = std::min(deadline, row->channel->last_taken() + options_.stream_idle_max);
  }
  return deadline;
}

bool Core::plan_step() {
  if (std::exchange(reconsider_, false)) scheduler_.reconsider_all();
  budget_.chunk_tokens = step_cost_.chunk_tokens(options_.step_tokens);
  do {
    take_turn();
    refresh_pages();
    while (scheduler_.short_of_pages(budget_)) preempt(scheduler_.preempt());
    admit_rows();
    plan_ = scheduler_.next(budget_);
  } while (plan_.empty() && take_from_paused());
  return !plan_.empty();
}

void Core::refresh_pages() { budget_.pages = pools_.pages_available(); }

void Core::take_turn() {
  turn_ = gateway_.turn(scheduler_.started() > 0, scheduler_.candidate().has_value());
  while (turn_.id < 0) {
    const auto node = exclusive_.extract(turn_.id);
    node.mapped()->run(loaded_);
    gateway_.release(turn_.id);
    turn_ = gateway_.turn(scheduler_.started() > 0, scheduler_.candidate().has_value());
  }
}

void Core::admit_rows() {
  if (turn_.id > 0) {
    // Nothing else runs, so it fits.
    if (!scheduler_.is_running(turn_.id)) INVARIANT(try_admit(turn_.id));
    return;
  }
  while (scheduler_.has_place()) {
    const auto id = scheduler_.candidate(!turn_.batch_admits);
    if (!id || !try_admit(*id)) return;
  }
}

bool Core::try_admit(RowId id) {
  Row& row = *rows_.at(id);
  PrefixCache::Found found = prefix_.find(row);
  if (found.wait) {
    scheduler_.hold_off(id);
    return true;
  }
  const auto fits = [&] { return scheduler_.can_admit(id, found.part, budget_); };
  // The copy of a page filled in part needs a page more.
  if (!fits() && found.hit.partial != kNoNode) {
    found = prefix_.find(row, found.part.tokens / kPageTokens * kPageTokens);
  }
  if (!fits()) {
    if (scheduler_.running() > 0) return false;
    found = prefix_.nothing();
    INVARIANT(fits());
  }
  if (!prefix_.start(row, found.hit)) found.part = {};
  scheduler_.admit(id, found.part);
  if (!row.admitted) {
    row.admitted_at = Clock::now();
    row.cached_tokens = found.part.tokens;
  }
  row.admitted = true;
  refresh_pages();
  return true;
}

void Core::preempt(RowId id) {
  Row& row = *rows_.at(id);
  wake_followers(prefix_.release(row));
  ++row.preemptions;
  ++stats_.preemptions;
  refresh_pages();
}

bool Core::take_from_paused() {
  if (!scheduler_.all_paused()) return false;
  if (turn_.id > 0) {
    if (gateway_.waiting() == 0) return false;
    gateway_.release(turn_.id);
    rows_.at(turn_.id)->made_way = true;
  } else if (!scheduler_.candidate(!turn_.batch_admits)) {
    return false;
  }
  preempt(scheduler_.preempt());
  return true;
}

void Core::run_step() {
  const Clock::time_point begin = Clock::now();
  const std::vector<StepRow> parts = place();
  if (!parts.empty()) forward(parts);
  ++stats_.steps;
  stats_.last_step_ms = ms_between(begin, Clock::now());
  step_cost_.observe(plan_.decoding, plan_.tokens - plan_.decoding, stats_.last_step_ms);
}

std::vector<StepRow> Core::place() {
  std::vector<StepRow> parts;
  for (const PlanRow& planned : plan_.rows) {
    Row& row = *rows_.at(planned.row);
    if (guarded(row, [&] { cover(row, planned); }) && scheduler_.is_running(planned.row)) {
      parts.push_back({&row, planned.begin, planned.count, planned.samples});
    }
  }
  return parts;
}

// Memory may run out before the pools have their size: the row then waits for a place,
// unless it is alone.
void Core::cover(Row& row, const PlanRow& planned) {
  try {
    pools_.cover(row.pages, planned.begin + planned.count);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kPoolExhausted || scheduler_.running() == 1) throw;
    scheduler_.preempt(row.id());
    preempt(row.id());
  }
}

void Core::forward(std::span<const StepRow> parts) {
  std::span<const float> logits;
  try {
    const Step& step = arrays_.build(parts, pools_);
    const Clock::time_point begin = Clock::now();
    loaded_.backend->begin_step(step);
    const Tensor result = loaded_.model->forward(*loaded_.backend, step);
    // Reading waits for a lazy backend, so that its errors surface here too.
    logits = loaded_.backend->read(result);
    stats_.forward_ms += ms_between(begin, Clock::now());
    INVARIANT(std::ssize(logits) == std::ssize(step.outputs) * vocab_size_);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    for (const StepRow& part : parts) {
      fail(*part.row, known ? known->code() : ErrorCode::kInternal, error.what());
    }
    return;
  }
  for (const StepRow& part : parts) {
    const size_t outputs = part.scoring() + (part.samples ? 1 : 0);
    const auto own = logits.first(outputs * vocab_size_);
    logits = logits.subspan(own.size());
    guarded(*part.row, [&] { sample(part, own); });
  }
}

void Core::sample(const StepRow& part, std::span<const float> logits) {
  Row& row = *part.row;
  const int32_t end_position = part.begin + part.count;
  stats_.prompt_tokens += std::max(0, std::min(end_position, row.prompt_length()) - part.begin);
  Event event;
  if (row.wants_prompt_logprobs()) score_prompt(part, logits, event);
  FinishReason finish = FinishReason::kNone;
  if (part.samples) {
    observe_token(row);
    finish = choose(row, logits.last(vocab_size_), end_position, event);
  } else if (row.request.max_tokens == 0 && end_position == row.prompt_length()) {
    finish = FinishReason::kLength;
  }
  if (finish != FinishReason::kNone) {
    prefix_.computed(row, end_position);
    end(row, finish, std::move(event));
    return;
  }
  wake_followers(prefix_.computed(row, end_position));
  pools_.drop_behind(row.pages, end_position);
  if (part.samples) scheduler_.advance(row.id());
  deliver(row, std::move(event));
}

FinishReason Core::choose(Row& row, std::span<const float> logits, int32_t position, Event& event) {
  auto* guide = dynamic_cast<TokenGuide*>(row.resource.get());
  TokenLimits limits{.forbidden = row.emitter.forbidden()};
  if (guide) {
    limits.forced = guide->forced();
    if (!limits.forced) limits.allowed = guide->mask();
    // What the grammar asks for, the request's other wishes forbid: min_tokens, say,
    // when nothing but the end may come.
    if (!limits.any_left()) return row.emitter.finish_now(event);
  }
  TokenInfo token = row.sampler.next(logits, position, row.request.logprobs, limits, sampler_);
  const int32_t id = token.id;
  row.tokens.push_back(id);
  ++stats_.generated_tokens;
  const FinishReason finish = row.emitter.accept(std::move(token), event);
  if (!guide || finish == FinishReason::kStop) return finish;
  guide->accept(id);
  if (finish == FinishReason::kNone && guide->terminated()) return row.emitter.finish_now(event);
  return finish;
}

void Core::observe_token(Row& row) {
  const Clock::time_point now = Clock::now();
  if (row.emitter.generated() == 0) {
    row.first_token_at = now;
    latency_.time_to_first_token.observe(ms_between(row.submitted_at, now) / 1e3);
  } else {
    latency_.inter_token.observe(ms_between(row.last_token_at, now) / 1e3);
  }
  row.last_token_at = now;
}

void Core::score_prompt(const StepRow& part, std::span<const float> logits, Event& event) {
  Row& row = *part.row;
  const int32_t first = part.scoring_first(), end = part.scoring_end();
  if (row.prompt_delivered == 0) event.prompt.push_back({.id = row.tokens[0], .top = {}});
  for (int32_t i = first; i < end; ++i, logits = logits.subspan(vocab_size_)) {
    event.prompt.push_back(token_logprobs(logits.first(vocab_size_), row.tokens[part.begin + i + 1],
                                          row.request.prompt_logprobs));
  }
  row.prompt_delivered += static_cast<int32_t>(event.prompt.size());
}

void Core::deliver(Row& row, Event event) {
  if (event.prompt.empty() && event.tokens.empty() && event.text.empty()) return;
  row.channel->push(std::move(event));
  if (!row.channel->full()) return;
  row.paused = true;
  scheduler_.pause(row.id());
}

void Core::end(Row& row, FinishReason reason, Event event) {
  // Nobody wants the answer that has just become whole.
  const bool whole = reason == FinishReason::kStop || reason == FinishReason::kLength;
  if (whole && row.cancelled()) reason = FinishReason::kCancelled;
  event.finish = reason;
  event.usage = usage_of(row);
  if (reason == FinishReason::kStop || reason == FinishReason::kLength) {
    latency_.finished(event.usage);
  }
  scheduler_.cancel(row.id());
  gateway_.release(row.id());
  wake_followers(prefix_.release(row));
  switch (reason) {
    case FinishReason::kStop: ++stats_.finished_stop; break;
    case FinishReason::kLength: ++stats_.finished_length; break;
    case FinishReason::kCancelled: ++stats_.finished_cancelled; break;
    case FinishReason::kError: ++stats_.finished_error; break;
    case FinishReason::kNone: INVARIANT(false);
  }
  if (reason == FinishReason::kError) ++stats_.errors[event.error_code];
  finals_.push_back({row.channel, std::move(event)});
  rows_.erase(row.id());
}

void Core::deliver_finals() {
  for (Final& final : finals_) {
    try {
      final.channel->push(std::move(final.event));
    } catch (const std::exception&) {
      // The listener threw; its row is gone already, and the event can be read.
    }
  }
  finals_.clear();
}

void Core::fail(Row& row, ErrorCode code, const std::string& message) {
  Event event;
  event.error_code = static_cast<int>(code);
  event.error = message;
  end(row, FinishReason::kError, std::move(event));
}

void Core::cancel_all() {
  while (!rows_.empty()) end(*rows_.begin()->second, FinishReason::kCancelled, {});
  fail_exclusive("the engine is shutting down");
}

void Core::fail_all(const std::string& message) {
  while (!rows_.empty()) fail(*rows_.begin()->second, ErrorCode::kInternal, message);
  fail_exclusive(message);
}

void Core::fail_exclusive(const std::string& message) {
  for (auto& [ticket, work] : exclusive_) {
    gateway_.release(ticket);
    work->fail(std::make_exception_ptr(Error(ErrorCode::kUnavailable, message)));
  }
  exclusive_.clear();
}

EngineStats Core::stats() const {
  EngineStats stats = stats_;
  stats.active_rows = scheduler_.running();
  stats.waiting_rows = scheduler_.waiting();
  stats.exclusive_waiting = static_cast<int>(exclusive_.size());
  // The batch gives its turn back when it is next asked for, and means nothing until then.
  stats.locked = !empty() && gateway_.locked();
  stats.paused_rows = static_cast<int>(
      std::count_if(rows_.begin(), rows_.end(), [](const auto& it) { return it.second->paused; }));
  stats.kv_pages_used = pools_.pages_used();
  stats.kv_pages_cached = pools_.pages_cached();
  stats.kv_bytes_cached = pools_.bytes_cached();
  stats.prefix = prefix_.stats();
  for (const auto& [id, row] : rows_) {
    if (scheduler_.is_running(id)) stats.kv_bytes_projected += pools_.row_bytes(row->tokens_max());
  }
  stats.memory = account();
  stats.kv_pages_total = pools_.pages_total();
  stats.kv_bytes_used = pools_.bytes_used();
  stats.kv_bytes_total = pools_.bytes_total();
  return stats;
}

LedgerSnapshot Core::account() const {
  ledger_.set(MemoryUse::kWeights, loaded_.backend->weight_bytes());
  ledger_.set(MemoryUse::kRows, pools_.bytes_used());
  ledger_.set(MemoryUse::kStates, pools_.state_bytes_used());
  ledger_.set(MemoryUse::kCached, pools_.bytes_cached());
  return ledger_.snapshot();
}

void Core::check() const {
  scheduler_.check();
  pools_.check();
  prefix_.check();
  INVARIANT(std::ssize(rows_) == scheduler_.running() + scheduler_.waiting());
  if (rows_.empty()) INVARIANT(pools_.pages_used() == 0 && scheduler_.started() == 0);
}

}  // namespace tandem
