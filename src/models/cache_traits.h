// What each cache of a model can do. A family describes all of its caches; one that
// is not described is an error when the model loads, never a guess.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

struct ModelInfo;

enum class CacheKind : uint8_t {
  kFull,     // keys and values of all tokens
  kSliding,  // of the last `window` tokens
  kLatent,   // compressed keys and values of all tokens
  kShared,   // none of its own: reads another layer's
  kState,    // recurrent state of fixed size
};

const char* cache_kind_name(CacheKind kind);

struct CacheTraits {
  CacheKind kind = CacheKind::kFull;
  bool batchable = true;       // several rows in one step
  bool trimmable = true;       // the last tokens can be taken back
  bool shareable = true;       // rows with a common prefix can share it
  bool persistent = true;      // can be written out and read back
  std::string serial_because;  // why it is not batchable, for people
};

// As the kinds are by nature; a family changes what is different for it.
CacheTraits cache_traits(CacheKind kind);

// Throws Error(kLoad) unless every cache of the model is described, and rightly so.
void check_cache_traits(const ModelInfo& info);

// Do all caches of the model have this trait?
bool all_caches(const ModelInfo& info, bool CacheTraits::* trait);
// Why rows of this model can't share a step; empty when they can.
std::string why_not_batchable(const ModelInfo& info);

}  // namespace tandem
