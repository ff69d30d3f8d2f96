// What besides the tokens decides the contents of a cached block.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// 128 bits; blocks of different namespaces never match.
struct CacheNamespace {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const CacheNamespace&) const = default;
};

struct CacheAdapter {
  uint64_t content_hash = 0;
  float scale = 1;
};

struct CacheNamespaceParts {
  uint64_t weights_fingerprint = 0;
  std::string kv_scheme;               // as on the command line: "f16", "q8", ...
  std::vector<CacheAdapter> adapters;  // in the order they are applied
  std::vector<uint64_t> media_hashes;  // in the order of the prompt
};

// Equal for equal parts, and for nothing else but chance.
CacheNamespace cache_namespace(const CacheNamespaceParts& parts);

// Hash of a chain of blocks: of the chain before (or the namespace) and one more block.
uint64_t chain_hash(const CacheNamespace& space);
uint64_t chain_hash(uint64_t before, std::span<const int32_t> tokens);

}  // namespace tandem

template <>
struct std::hash<tandem::CacheNamespace> {
  size_t operator()(const tandem::CacheNamespace& space) const noexcept {
    return space.high ^ space.low;
  }
};
