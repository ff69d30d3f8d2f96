#include "cache/cache_namespace.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>

namespace tandem {

namespace {

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

CacheNamespace cache_namespace(const CacheNamespaceParts& parts) {
  // Each list goes behind its length, so that no two sets of parts read alike.
  std::string text;
  append(text, parts.weights_fingerprint);
  append(text, uint64_t{parts.kv_scheme.size()});
  text += parts.kv_scheme;
  append(text, uint64_t{parts.adapters.size()});
  for (const CacheAdapter& adapter : parts.adapters) {
    append(text, adapter.content_hash);
    append(text, std::bit_cast<uint32_t>(adapter.scale));
  }
  append(text, uint64_t{parts.media_hashes.size()});
  for (uint64_t hash : parts.media_hashes) append(text, hash);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

uint64_t chain_hash(const CacheNamespace& space) {
  return XXH3_64bits_withSeed(&space.low, sizeof(space.low), space.high);
}

uint64_t chain_hash(uint64_t before, std::span<const int32_t> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), before);
}

}  // namespace tandem
