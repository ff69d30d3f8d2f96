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

// The longest context whose cache fits; 0 = none.
int64_t longest_context(const ModelInfo& info, const MemoryRequest& request, int64_t bytes) {
  return kv_longest_row(info, request.codec, request.context_length, request.step_tokens, bytes);
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
  const int64_t longest = longest_context(info, request, bytes);
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
  const bool own_budget = request.kv_budget_bytes > 0 && request.kv_budget_bytes <= bytes;
  if (own_budget) bytes = request.kv_budget_bytes;
  if (needed > bytes && !(own_budget && longest_context(info, request, bytes) > 0)) {
    throw Error(ErrorCode::kMemory, too_small(info, request, needed, bytes), "context_length");
  }
  return {request.context_length, std::min(bytes, needed * request.max_rows)};
}

}  // namespace tandem
