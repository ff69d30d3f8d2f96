// Prefixes that rows share: finds what the cache holds of a row's tokens, gives the
// row those pages, and takes in each block that a row has computed. Blocks of rows
// that run are shared as they come; what no row holds any more stays until its pages
// are needed. Engine thread only.
#pragma once

#include <cstdint>
#include <limits>

#include "cache/prefix_index.h"
#include "engine/kv_pools.h"
#include "engine/prefix_stats.h"
#include "engine/row.h"

namespace tandem {

struct PrefixCacheOptions {
  int64_t bytes_max = 0;  // of what only the cache holds; 0 = no cache
  CacheNamespaceParts parts;
};

class PrefixCache {
 public:
  // State slots that checkpoints may take, for KvPoolOptions.
  static int32_t checkpoints_max(const ModelInfo& info, int64_t bytes_max);

  // `pools` must outlive this.
  PrefixCache(KvPools& pools, PrefixCacheOptions options);

  struct Found {
    PrefixHit hit;
    CachedPart part;    // what the scheduler must know of it
    bool wait = false;  // another row is computing more of this prefix now
  };
  // At most `limit` tokens, and never the row's last.
  Found find(const Row& row, int32_t limit = std::numeric_limits<int32_t>::max()) const;
  Found nothing() const;
  // Gives the row the pages of a hit just found. False if there is no place for the
  // copies it takes: the row then starts from nothing.
  bool start(Row& row, const PrefixHit& hit);
  // The row's tokens before `end` are in its pages. True when that concerns rows that
  // wait for blocks.
  bool computed(Row& row, int32_t end);
  // Takes the row's pages back, for good or for now. True as computed().
  bool release(Row& row);

  PrefixCacheStats stats() const;
  PrefixIndex& index() { return index_; }
  void check() const { index_.check(); }

 private:
  static IndexOptions index_options(KvPools& pools);
  bool enabled() const { return options_.bytes_max > 0; }
  void add_block(Row& row);
  void keep_checkpoint(Row& row, int32_t end);
  void trim();

  KvPools& pools_;
  const PrefixCacheOptions options_;
  const CacheNamespace space_;
  PrefixIndex index_;
  PrefixCacheStats stats_;
};

}  // namespace tandem
