#include "sched/limits.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tandem {

int64_t SchedulerLimits::pages_between(int64_t begin, int64_t end, const PageGroup& group) const {
  const int64_t all = pages_of(end) - pages_of(begin);
  if (group.window == 0) return all;
  // The chunk and the window before it, which may begin inside a page.
  const int64_t held = int64_t{group.window} - 1 + step_tokens;
  return std::min(all, pages_of(held) + 1);
}

int64_t SchedulerLimits::pages_needed(const RowSpec& spec, const PageGroup& group) const {
  // The last sampled token is never computed, so it needs no place.
  return pages_between(0, int64_t{spec.prompt_length} + std::max(0, spec.max_tokens - 1), group);
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
