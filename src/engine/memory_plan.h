// How weights and cache share the memory there is.
#pragma once

#include <cstdint>

#include "backend/kv_store.h"
#include "models/model.h"

namespace tandem {

struct MemoryPlan {
  int context_length = 0;
  int64_t kv_bytes_max = 0;  // what page pools and state slots may grow to
};

struct MemoryRequest {
  int64_t weight_bytes = 0;
  int64_t budget_bytes = 0;     // for weights and cache together; 0 = no budget
  int64_t kv_budget_bytes = 0;  // for the cache alone; 0 = what is left for it
  int64_t available_bytes = 0;  // with the weights loaded already
  int context_length = 0;
  int max_rows = 0;
  int step_tokens = 512;
  KvCodec codec = KvCodec::kF16;
};

// Room for max_rows whole contexts, or as much of it as there is. Throws
// Error(kMemory) if not even one fits: with the numbers, and the longest context
// that would. With a budget for the cache alone that is no error as long as it holds
// something: requests that are too long for it are refused one by one.
MemoryPlan plan_memory(const ModelInfo& info, const MemoryRequest& request);

}  // namespace tandem
