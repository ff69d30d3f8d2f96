// Attention over paged keys and values: o = softmax(scale q k^T) v.
// Source: PagedAttention, arXiv:2309.06180; online softmax, arXiv:1805.02867.
//
// The order of operations of one query depends on absolute positions alone:
// softmax over a partition of kPartitionPages pages with its own maximum, keys
// ascending, and the partitions' results merged ascending. So a query's result is
// the same in any batch, chunk or split over threads.
#pragma once

#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/cpu/pages.h"

namespace tandem::cpu {

inline constexpr int kPartitionPages = 8;
inline constexpr int kPartitionKeys = kPartitionPages * kPageTokens;
inline constexpr int kBlockQueries = 48;

struct AttentionArgs {
  const float* q = nullptr;  // [n, heads * head_dim]
  float* out = nullptr;      // [n, heads * v_dim]
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t v_dim = 0;
  float scale = 0;
  float softcap = 0;
  const float* sinks = nullptr;  // [heads]; null = none
  KvLayer kv;
  const int32_t* key_begin = nullptr;  // [n] each token sees keys [begin, end)
  const int32_t* key_end = nullptr;
};

// Up to kBlockQueries queries of one row that share a key/value head: `heads`
// query heads of each of `tokens` tokens, token-major.
struct AttentionBlock {
  const int32_t* pages = nullptr;  // of the row
  int64_t token = 0;
  int64_t tokens = 0;
  int64_t head = 0;
  int64_t heads = 0;
};

// What is known of one query so far: maximum, sum (0 = no key seen), then from
// float 16 on the weighted values [v_dim, rounded up to 16].
constexpr int64_t state_floats(int64_t v_dim) { return 16 + (v_dim + 15) / 16 * 16; }

// Floats a worker needs as scratch.
constexpr int64_t attention_scratch_floats(int64_t head_dim, int64_t v_dim) {
  return kPageTokens * (head_dim + state_floats(v_dim)) +
         kBlockQueries * (kPartitionKeys + 2 + 2 * state_floats(v_dim));
}

struct AttentionKernels {
  // All of a block: every partition, merged and written out.
  void (*block)(const AttentionArgs&, const AttentionBlock&, float* scratch);
  // One partition of a block into states [queries][state_floats].
  void (*partition)(const AttentionArgs&, const AttentionBlock&, int64_t partition, float* scratch,
                    float* states);
  // Merges `count` partitions' states, [partition][queries], and writes out.
  void (*merge)(const AttentionArgs&, const AttentionBlock&, int64_t count, float* states);
};
AttentionKernels attention_kernels(Isa isa);

}  // namespace tandem::cpu
