// How well the prefix cache serves. Counters only grow.
#pragma once

#include <cstdint>

namespace tandem {

struct PrefixCacheStats {
  int64_t queries = 0;  // rows that were looked up when they joined
  int64_t hits = 0;     // of these, rows that found something
  int64_t query_tokens = 0;
  int64_t hit_tokens = 0;
  int64_t blocks = 0;  // now
};

}  // namespace tandem
