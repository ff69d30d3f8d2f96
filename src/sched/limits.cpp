#include "sched/limits.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace tandem {

int64_t SchedulerLimits::pages_between(int64_t begin, int64_t end, const PageGroup& group) const {
  const int64_t all = pages_of(end) - pages_of(begin);
  return group.window == 0 ? all : std::min(all, pages_in_window(group));
}

int64_t SchedulerLimits::pages_in_window(const PageGroup& group) const {
  // The chunk and the window before it, which may begin inside a page.
  return pages_of(int64_t{group.window} - 1 + step_tokens) + 1;
}

int64_t SchedulerLimits::pages_needed(const RowSpec& spec, const PageGroup& group) const {
  // The last sampled token is never computed, so it needs no place.
  return pages_between(0, int64_t{spec.prompt_length} + std::max(0, spec.max_tokens - 1), group);
}

int32_t SchedulerLimits::next_checkpoint(const RowSpec& spec, int32_t begin) const {
  if (checkpoint_tokens == 0) return std::numeric_limits<int32_t>::max();
  const int32_t next = (begin / checkpoint_tokens + 1) * checkpoint_tokens;
  const int32_t last = (spec.prompt_length - 1) / page_tokens * page_tokens;
  return last > begin ? std::min(next, last) : next;
}

int64_t SchedulerLimits::longest_row() const {
  int64_t longest = std::numeric_limits<int32_t>::max();
  for (const PageGroup& group : groups) {
    const int64_t whole = group.pages * page_tokens;
    // With all that a window ever holds there is no end to it.
    if (pages_between(0, longest, group) > group.pages) longest = std::min(longest, whole);
  }
  return longest;
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

}  // namespace tandem
