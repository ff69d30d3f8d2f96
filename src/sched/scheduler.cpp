#include "sched/scheduler.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"

namespace tandem {

Scheduler::Scheduler(SchedulerLimits limits) : limits_(std::move(limits)) {
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

bool Scheduler::short_of_pages(const Budget& budget) const {
  if (running_.size() < 2) return false;
  std::vector<int64_t> left = budget.pages;
  bool first_chunk = true;
  for (const Row& row : running_) {
    // Besides decoding rows, the oldest of the others must advance.
    if (!row.due() || !(row.decoding() || std::exchange(first_chunk, false))) continue;
    take(row, 1, left);
  }
  return std::any_of(left.begin(), left.end(), [](int64_t pages) { return pages < 0; });
}

RowId Scheduler::preempt() {
  INVARIANT(!running_.empty());
  const auto paused =
      std::find_if(running_.rbegin(), running_.rend(), [](const Row& row) { return row.paused; });
  const RowId id = paused != running_.rend() ? paused->spec.id : running_.back().spec.id;
  preempt(id);
  return id;
}

void Scheduler::preempt(RowId id) {
  Row& row = running_row(id);
  row.computed = 0;
  row.overtaken = kOvertakenMax;
  // Among rows that were preempted the older goes first.
  const auto place = std::find_if(waiting_.begin(), waiting_.end(), [&](const Row& other) {
    return other.age == 0 || other.age > row.age;
  });
  waiting_.insert(place, row);
  running_.erase(running_.begin() + (&row - running_.data()));
}

std::optional<RowId> Scheduler::candidate(bool preempted_only) const {
  for (const Row& row : waiting_) {
    if (row.paused || row.spec.solo) continue;
    if (preempted_only && row.age == 0) return std::nullopt;
    return row.spec.id;
  }
  return std::nullopt;
}

bool Scheduler::can_admit(RowId id, const PrefixHit& hit, const Budget& budget) const {
  INVARIANT(budget.pages.size() == limits_.groups.size());
  const int32_t length = row(id).length;
  INVARIANT(hit.tokens < length);
  if (running() >= limits_.max_rows) return false;
  for (size_t g = 0; g < limits_.groups.size(); ++g) {
    const PageGroup& group = limits_.groups[g];
    const int64_t taken = hit.pages.empty() ? 0 : hit.pages[g];
    const int64_t needed = taken + limits_.pages_between(hit.tokens, length, group);
    if (needed + pages_outstanding(group) + watermark(group) > budget.pages[g]) return false;
  }
  return true;
}

// What rows that run still need for the tokens they have.
int64_t Scheduler::pages_outstanding(const PageGroup& group) const {
  int64_t pages = 0;
  for (const Row& row : running_) pages += limits_.pages_between(row.computed, row.length, group);
  return pages;
}

int64_t Scheduler::watermark(const PageGroup& group) const {
  if (running_.empty()) return 0;
  return std::max<int64_t>(running() + 1, group.pages / 64);
}

void Scheduler::admit(RowId id, const PrefixHit& hit) {
  INVARIANT(running() < limits_.max_rows);
  const auto it = std::find_if(waiting_.begin(), waiting_.end(),
                               [id](const Row& row) { return row.spec.id == id; });
  INVARIANT(it != waiting_.end() && hit.tokens < it->length);
  Row row = *it;
  waiting_.erase(it);
  if (row.age == 0) row.age = ++last_age_;
  row.computed = hit.tokens;
  const auto younger = std::find_if(running_.begin(), running_.end(),
                                    [&](const Row& other) { return other.age > row.age; });
  running_.insert(younger, row);
}

int32_t Scheduler::room(int32_t begin, std::span<const int64_t> pages) const {
  int64_t most = std::numeric_limits<int32_t>::max();
  for (int64_t free : pages) {
    most = std::min(most, (limits_.pages_of(begin) + free) * limits_.page_tokens - begin);
  }
  return static_cast<int32_t>(std::max<int64_t>(0, most));
}

void Scheduler::take(const Row& row, int32_t count, std::vector<int64_t>& pages) const {
  const int64_t more = limits_.pages_of(row.computed + count) - limits_.pages_of(row.computed);
  for (int64_t& left : pages) left -= more;
}

Plan Scheduler::next(const Budget& budget) {
  INVARIANT(budget.tokens > limits_.max_rows && budget.tokens <= limits_.step_tokens);
  INVARIANT(budget.prompt_outputs > 0 && budget.chunk_tokens > 0);
  INVARIANT(budget.pages.size() == limits_.groups.size());
  Plan plan;
  std::vector<int64_t> pages = budget.pages;
  for (Row& row : running_) {
    if (!row.due() || !row.decoding() || room(row.computed, pages) == 0) continue;
    take(row, 1, pages);
    plan_row(row, 1, plan);
    ++plan.decoding;
  }
  int32_t tokens = budget.tokens - plan.tokens;
  if (plan.decoding > 0) tokens = std::min(tokens, budget.chunk_tokens);
  int32_t outputs = budget.prompt_outputs;
  for (Row& row : running_) {
    if (!row.due()) continue;
    int32_t count = std::min({row.length - row.computed, tokens, room(row.computed, pages)});
    if (row.spec.prompt_outputs) {
      count = std::min(count, outputs);
      outputs -= count;
    }
    if (count <= 0) continue;
    take(row, count, pages);
    plan_row(row, count, plan);
    tokens -= count;
  }
  return plan;
}

void Scheduler::plan_row(Row& row, int32_t count, Plan& plan) {
  const bool last = row.computed + count == row.length;
  plan.rows.push_back({row.spec.id, row.computed, count, last && row.spec.max_tokens > 0});
  plan.tokens += count;
  row.computed += count;
}

const Scheduler::Row& Scheduler::row(RowId id) const {
  const auto is = [id](const Row& row) { return row.spec.id == id; };
  const auto running = std::find_if(running_.begin(), running_.end(), is);
  if (running != running_.end()) return *running;
  const auto waiting = std::find_if(waiting_.begin(), waiting_.end(), is);
  INVARIANT(waiting != waiting_.end());
  return *waiting;
}

Scheduler::Row& Scheduler::row(RowId id) { return const_cast<Row&>(std::as_const(*this).row(id)); }

Scheduler::Row& Scheduler::running_row(RowId id) {
  INVARIANT(is_running(id));
  return row(id);
}

void Scheduler::advance(RowId id) {
  Row& row = running_row(id);
  INVARIANT(row.computed == row.length);
  ++row.length;
  INVARIANT(row.length <= int64_t{row.spec.prompt_length} + row.spec.max_tokens);
}

void Scheduler::skip(RowId id, int32_t tokens) {
  Row& row = running_row(id);
  INVARIANT(tokens >= 0 && row.computed + tokens < row.length);
  row.computed += tokens;
}

void Scheduler::finish(RowId id) {
  running_.erase(running_.begin() + (&running_row(id) - running_.data()));
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

void Scheduler::pause(RowId id) { row(id).paused = true; }

void Scheduler::resume(RowId id) { row(id).paused = false; }

int Scheduler::started() const {
  const auto started = [](const Row& row) { return row.age > 0 && !row.spec.solo; };
  return static_cast<int>(std::count_if(running_.begin(), running_.end(), started) +
                          std::count_if(waiting_.begin(), waiting_.end(), started));
}

bool Scheduler::is_running(RowId id) const {
  return std::any_of(running_.begin(), running_.end(),
                     [id](const Row& row) { return row.spec.id == id; });
}

bool Scheduler::all_paused() const {
  return !running_.empty() &&
         std::all_of(running_.begin(), running_.end(), [](const Row& row) { return row.paused; });
}

int32_t Scheduler::computed(RowId id) const { return row(id).computed; }

void Scheduler::check() const {
  INVARIANT(running() <= limits_.max_rows);
  for (size_t i = 0; i < running_.size(); ++i) {
    const Row& row = running_[i];
    INVARIANT(row.computed >= 0 && row.computed <= row.length);
    INVARIANT(row.age > 0 && (i == 0 || running_[i - 1].age < row.age));
  }
  bool fresh = false;
  for (const Row& row : waiting_) {
    INVARIANT(row.computed == 0);
    INVARIANT(row.age == 0 || !fresh);  // preempted rows go first
    fresh |= row.age == 0;
  }
}

}  // namespace tandem
