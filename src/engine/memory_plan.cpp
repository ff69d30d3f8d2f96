#include "engine/memory_plan.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/kv_pools.h"
#include "engine/memory.h"

namespace tandem {

namespace {

// Left for activations, logits and everything else that grows while serving.
constexpr double kCacheShare = 0.85;

int64_t row_bytes(const ModelInfo& info, const MemoryRequest& request, int64_t tokens) {
  return kv_row_bytes(info, request.codec, tokens, request.step_tokens);
}

// The longest context, in pages, whose cache fits; 0 = none.
int longest_context(const ModelInfo& info, const MemoryRequest& request, int64_t bytes) {
  int low = 0, high = request.context_length / kPageTokens;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (row_bytes(info, request, int64_t{middle} * kPageTokens) <= bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kPageTokens;
}

std::string too_small(const ModelInfo& info, const MemoryRequest& request, int64_t needed,
                      int64_t bytes) {
  std::string message = "the cache of one context of " + std::to_string(request.context_length) +
                        " tokens needs " + bytes_text(needed) + ", and " +
                        bytes_text(std::max<int64_t>(0, bytes)) +
                        " are left for it (weights take " + bytes_text(request.weight_bytes);
  message += request.budget_bytes > 0
                 ? " of a memory budget of " + bytes_text(request.budget_bytes) + ")"
                 : ", " + bytes_text(request.available_bytes) + " of memory are available)";
  const int longest = longest_context(info, request, bytes);
  if (longest > 0) {
    return message + "; a context length of " + std::to_string(longest) + " would fit";
  }
  return message + "; choose a smaller or more quantised model" +
         (request.budget_bytes > 0 ? ", or raise the budget" : "");
}

}  // namespace

MemoryPlan plan_memory(const ModelInfo& info, const MemoryRequest& request) {
  int64_t bytes = static_cast<int64_t>(static_cast<double>(request.available_bytes) * kCacheShare);
  if (request.budget_bytes > 0) bytes = request.budget_bytes - request.weight_bytes;
  const int64_t needed = row_bytes(info, request, request.context_length);
  if (needed > bytes) {
    throw Error(ErrorCode::kMemory, too_small(info, request, needed, bytes), "context_length");
  }
  return {request.context_length, std::min(bytes, needed * request.max_rows)};
}

}  // namespace tandem
