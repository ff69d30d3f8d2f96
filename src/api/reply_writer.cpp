#include "api/reply_writer.h"

namespace tandem::api {

void UsageSum::add(int row, const Usage& usage) {
  generated_tokens += usage.generated_tokens;
  if (row % choices_per_prompt_ != 0) return;
  prompt_tokens += usage.prompt_tokens;
  cached_tokens += usage.cached_tokens;
}

}  // namespace tandem::api
