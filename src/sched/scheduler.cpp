#include "sched/scheduler.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tandem {

int64_t SchedulerLimits::pages_needed(const RowSpec& spec, const PageGroup& group) const {
  // The last sampled token is never computed, so it needs no place.
  const int64_t tokens = int64_t{spec.prompt_length} + std::max(0, spec.max_tokens - 1);
  const int64_t all = (tokens + page_tokens - 1) / page_tokens;
  if (group.window == 0) return all;
  // The chunk and the window before it, which may begin inside a page.
  const int64_t held = int64_t{group.window} - 1 + step_tokens;
  return std::min(all, (held + page_tokens - 1) / page_tokens + 1);
}

void SchedulerLimits::check_fits(const RowSpec& spec) const {
  for (const PageGroup& group : groups) {
    const int64_t needed = pages_needed(spec, group);
    if (needed <= group.pages) continue;
    throw Error(ErrorCode::kPoolExhausted,
                "the request may need " + std::to_string(needed) + " cache pages of " +
                    std::to_string(page_tokens) + " tokens, and there are " +
                    std::to_string(group.pages) + " in all; shorten the prompt or lower max_tokens",
                "max_tokens");
  }
}

Scheduler::Scheduler(SchedulerLimits limits)
    : limits_(std::move(limits)), reserved_(limits_.groups.size(), 0) {
  INVARIANT(limits_.max_rows > 0 && limits_.step_tokens > limits_.max_rows);
}

void Scheduler::add(const RowSpec& spec) {
  INVARIANT(spec.prompt_length > 0 && spec.max_tokens >= 0);
  limits_.check_fits(spec);
  auto place = waiting_.end();
  while (place != waiting_.begin()) {
    Row& ahead = *std::prev(place);
    if (ahead.spec.priority >= spec.priority || ahead.overtaken >= kOvertakenMax) break;
    ++ahead.overtaken;
    --place;
  }
  Row row;
  row.spec = spec;
  row.length = spec.prompt_length;
  waiting_.insert(place, row);
}

Plan Scheduler::next(const Budget& budget) {
  INVARIANT(budget.tokens > limits_.max_rows && budget.tokens <= limits_.step_tokens);
  INVARIANT(budget.prompt_outputs > 0);
  Plan plan;
  admit(plan);
  for (Row& row : running_) {
    if (row.due() && row.decoding()) plan_row(row, row.length - row.computed, plan);
  }
  int32_t outputs = budget.prompt_outputs;
  for (Row& row : running_) {
    if (!row.due() || row.decoding()) continue;
    int32_t count = std::min(row.length - row.computed, budget.tokens - plan.tokens);
    if (row.spec.prompt_outputs) {
      count = std::min(count, outputs);
      outputs -= count;
    }
    if (count > 0) plan_row(row, count, plan);
  }
  return plan;
}

void Scheduler::admit(Plan& plan) {
  const auto fits = [&](const RowSpec& spec) {
    for (size_t g = 0; g < limits_.groups.size(); ++g) {
      const PageGroup& group = limits_.groups[g];
      if (reserved_[g] + limits_.pages_needed(spec, group) > group.pages) return false;
    }
    return true;
  };
  while (!waiting_.empty() && running() < limits_.max_rows && fits(waiting_.front().spec)) {
    reserve(waiting_.front().spec, 1);
    plan.admitted.push_back(waiting_.front().spec.id);
    running_.push_back(waiting_.front());
    waiting_.pop_front();
  }
}

void Scheduler::plan_row(Row& row, int32_t count, Plan& plan) {
  const bool last = row.computed + count == row.length;
  plan.rows.push_back({row.spec.id, row.computed, count, last && row.spec.max_tokens > 0});
  plan.tokens += count;
  row.computed += count;
}

void Scheduler::reserve(const RowSpec& spec, int sign) {
  for (size_t g = 0; g < limits_.groups.size(); ++g) {
    reserved_[g] += sign * limits_.pages_needed(spec, limits_.groups[g]);
  }
}

Scheduler::Row& Scheduler::running_row(RowId id) {
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [id](const Row& row) { return row.spec.id == id; });
  INVARIANT(it != running_.end());
  return *it;
}

void Scheduler::advance(RowId id) {
  Row& row = running_row(id);
  INVARIANT(row.computed == row.length);
  ++row.length;
  INVARIANT(row.length <= int64_t{row.spec.prompt_length} + row.spec.max_tokens);
}

void Scheduler::finish(RowId id) {
  const Row& row = running_row(id);
  reserve(row.spec, -1);
  running_.erase(running_.begin() + (&row - running_.data()));
}

void Scheduler::cancel(RowId id) {
  const auto it = std::find_if(waiting_.begin(), waiting_.end(),
                               [id](const Row& row) { return row.spec.id == id; });
  if (it != waiting_.end()) {
    waiting_.erase(it);
  } else {
    finish(id);
  }
}

void Scheduler::pause(RowId id) { running_row(id).paused = true; }

void Scheduler::resume(RowId id) { running_row(id).paused = false; }

void Scheduler::check() const {
  INVARIANT(running() <= limits_.max_rows);
  for (size_t g = 0; g < limits_.groups.size(); ++g) {
    int64_t sum = 0;
    for (const Row& row : running_) sum += limits_.pages_needed(row.spec, limits_.groups[g]);
    INVARIANT(sum == reserved_[g] && sum <= limits_.groups[g].pages);
  }
  for (const Row& row : running_) INVARIANT(row.computed <= row.length);
}

}  // namespace tandem
