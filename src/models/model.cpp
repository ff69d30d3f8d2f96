#include "models/model.h"

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

}  // namespace tandem
