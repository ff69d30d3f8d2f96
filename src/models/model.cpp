#include "models/model.h"

#include <algorithm>

namespace tandem {

const char* cache_kind_name(CacheKind kind) {
  switch (kind) {
    case CacheKind::kFull: return "full";
    case CacheKind::kSliding: return "sliding";
    case CacheKind::kLatent: return "latent";
    case CacheKind::kState: return "state";
  }
  return "?";
}

CacheCapability full_cache() {
  return {.kind = CacheKind::kFull,
          .batchable = true,
          .trimmable = true,
          .shareable = true,
          .persistent = true};
}

// What is behind the window is gone: only tokens within it can be taken back.
CacheCapability sliding_cache() {
  CacheCapability can = full_cache();
  can.kind = CacheKind::kSliding;
  return can;
}

CacheCapability latent_cache() {
  CacheCapability can = full_cache();
  can.kind = CacheKind::kLatent;
  return can;
}

// A state cannot forget a token; a row goes back to a copy of its slot.
CacheCapability state_cache() {
  CacheCapability can = full_cache();
  can.kind = CacheKind::kState;
  can.trimmable = false;
  return can;
}

bool all_caches(const ModelInfo& info, bool CacheCapability::* can) {
  const auto allows = [can](const CacheCapability& cache) { return cache.*can; };
  return std::all_of(info.kv_capabilities.begin(), info.kv_capabilities.end(), allows) &&
         std::all_of(info.state_capabilities.begin(), info.state_capabilities.end(), allows);
}

std::string why_not_batchable(const ModelInfo& info) {
  for (const auto* caches : {&info.kv_capabilities, &info.state_capabilities}) {
    for (const CacheCapability& cache : *caches) {
      if (cache.batchable) continue;
      return std::string("a ") + cache_kind_name(cache.kind) + " cache of " + info.architecture +
             " holds one row only";
    }
  }
  return {};
}

}  // namespace tandem
