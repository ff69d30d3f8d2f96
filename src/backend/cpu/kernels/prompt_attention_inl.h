// The body of prompt_attention.h for one instruction set.

#include "backend/cpu/kernels/tiles_inl.h"

// Operands lie as tiles of 1 KiB: queries [16 queries][32 dims], keys [16 pairs of
// dims][16 keys][2], weights [16 queries][32 keys], values [16 pairs of keys][16 dims][2].
constexpr int64_t kTileHalves = 512;

struct PromptAttention {
  uint16_t* queries;  // [query tile][head_dim / 32]
  uint16_t* keys;     // [page][half][head_dim / 32]
  uint16_t* values;   // [v_dim / 16][page]
  uint16_t* weights;  // [query tile][page]
  float* scores;      // [queries][kPartitionKeys]
  float* part;        // states
  float* total;
};

static PromptAttention cut_prompt_scratch(const AttentionArgs& a, float* p) {
  const auto halves = [&p](int64_t count) {
    uint16_t* at = reinterpret_cast<uint16_t*>(p);
    p += count / 2;
    return at;
  };
  PromptAttention s;
  s.queries = halves(kPromptQueries * a.head_dim);
  s.keys = halves(kPartitionKeys * a.head_dim);
  s.values = halves(kPartitionKeys * a.v_dim);
  s.weights = halves(kPromptQueries * kPartitionKeys);
  s.scores = p;
  s.part = s.scores + kPromptQueries * kPartitionKeys;
  s.total = s.part + kPromptQueries * state_floats(a.v_dim);
  return s;
}

static void expand_prompt_queries(const AttentionArgs& a, const AttentionBlock& b, int64_t tiles,
                                  uint16_t* out) {
  const int64_t steps = a.head_dim / 32;
  for (int64_t i = 0; i < tiles * 16; i++) {
    const bool real = i < b.tokens * b.heads;
    const float* q = real ? query(a, b, i) : nullptr;
    for (int64_t d = 0; d < a.head_dim; d += 16) {
      uint16_t* row = out + (i / 16 * steps + d / 32) * kTileHalves + i % 16 * 32;
      store_bf16(row + d % 32, real ? f_load(q + d) : f_zero());
    }
  }
}

static void expand_prompt_keys(const AttentionArgs& a, const uint8_t* plane, uint16_t* out) {
  const KvCodec codec = a.kv.main.k_format.codec;
  const int64_t steps = a.head_dim / 32;
  for (int64_t d = 0; d < a.head_dim; d += 2) {
    for (int half = 0; half < 2; half++) {
      store_bf16_pairs(out + (half * steps + d / 32) * kTileHalves + d % 32 / 2 * 32,
                       load_coded(codec, plane, d * kKeys + half * 16),
                       load_coded(codec, plane, (d + 1) * kKeys + half * 16));
    }
  }
}

// Values of page `page`; keys from `end` on have none yet.
static void expand_prompt_values(const AttentionArgs& a, const uint8_t* plane, int64_t page,
                                 int64_t end, uint16_t* out) {
  const KvCodec codec = a.kv.main.v_format.codec;
  for (int64_t d = 0; d < a.v_dim; d += 16) {
    uint16_t* tile = out + (d / 16 * kPartitionPages + page) * kTileHalves;
    for (int64_t j = 0; j < kKeys; j += 2, tile += 32) {
      const F first = j < end ? load_coded(codec, plane, j * a.v_dim + d) : f_zero();
      const F second = j + 1 < end ? load_coded(codec, plane, (j + 1) * a.v_dim + d) : f_zero();
      store_bf16_pairs(tile, first, second);
    }
  }
}

// sums = or += a (kTall tiles, `a_next` apart) times b (kWide tiles, `b_next` apart) over
// `steps` tiles of depth. A tile of sums is [16][16] of rows `stride` floats apart.
template <class Tiles, int kTall, int kWide>
static void multiply_tiles(Tiles& tiles, const uint16_t* a, int64_t a_next, const uint16_t* b,
                           int64_t b_next, int64_t steps, float* sums, int64_t stride) {
  tiles.template zero<0>();
  tiles.template zero<1>();
  tiles.template zero<2>();
  tiles.template zero<3>();
  for (int64_t i = 0; i < steps; i++, a += kTileHalves, b += kTileHalves) {
    tiles.template load<6>(b, 64);
    tiles.template load<4>(a, 64);
    tiles.template dot_bf16<0, 4, 6>();
    if (kWide == 2) {
      tiles.template load<7>(b + b_next, 64);
      tiles.template dot_bf16<1, 4, 7>();
    }
    if (kTall == 2) {
      tiles.template load<5>(a + a_next, 64);
      tiles.template dot_bf16<2, 5, 6>();
      if (kWide == 2) tiles.template dot_bf16<3, 5, 7>();
    }
  }
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
  float* low = sums + 16 * stride;
  tiles.template store<0>(sums, bytes);
  if (kWide == 2) tiles.template store<1>(sums + 16, bytes);
  if (kTall == 2) tiles.template store<2>(low, bytes);
  if (kTall == 2 && kWide == 2) tiles.template store<3>(low + 16, bytes);
}

// 2^x for x <= 0 to 5 digits, which is more than bf16 keeps.
TANDEM_INLINE F rough_power(F x) {
  const F t = f_max(f_set(-126.0f), x);
  const F n = f_round(t);
  const F r = f_sub(t, n);
  F p = f_fma(f_set(9.6181291e-3f), r, f_set(5.5504109e-2f));
  p = f_fma(p, r, f_set(2.4022651e-1f));
  p = f_fma(p, r, f_set(6.9314718e-1f));
  return f_times_power(f_fma(p, r, f_set(1.0f)), i_round(n));
}

// Whether lane i of 16 keys from `key` on is in [begin, end): x, else `other`.
TANDEM_INLINE F where_seen(F x, F other, int64_t key, int64_t begin, int64_t end) {
  if (key >= begin && key + 16 <= end) return x;
  const F index = f_add(f_load(kLanes), f_set(static_cast<float>(key)));
  x = f_select_less(index, f_set(static_cast<float>(begin)), other, x);
  return f_select_less(index, f_set(static_cast<float>(end)), x, other);
}

// Scores of keys [begin, end) of one query to weights over [first, last), whole pages.
static void soften_prompt(const AttentionArgs& a, const float* scores, int64_t begin, int64_t end,
                          int64_t first, int64_t last, uint16_t* weights, float* state) {
  F highest = f_set(-__builtin_inff());
  for (int64_t key = first; key < last; key += 16) {
    highest = f_max(highest, where_seen(f_load(scores + key), highest, key, begin, end));
  }
  const float max = f_max_lane(highest);
  const float factor = a.scale * 1.44269504f;
  const F bias = f_set(-max * factor);
  F sum = f_zero();
  for (int64_t key = first; key < last; key += 16) {
    F p = f_zero();
    if (key < end && key + 16 > begin) {
      p = rough_power(f_fma(f_load(scores + key), f_set(factor), bias));
      p = where_seen(p, f_zero(), key, begin, end);
      sum = f_add(sum, p);
    }
    store_bf16(weights + key / kKeys * kTileHalves + key % kKeys, p);
  }
  state[0] = max * a.scale;
  state[1] = f_sum(sum);
}

// The keys of one partition that a block's queries see, counted from its first.
struct PromptSpan {
  int64_t begin;
  int64_t end;
};

TANDEM_INLINE PromptSpan seen_keys(const AttentionArgs& a, int64_t token, int64_t partition) {
  const int64_t first = partition * kPartitionKeys;
  const int64_t begin = a.key_begin[token] - first;
  const int64_t end = a.key_end[token] - first;
  return {begin < 0 ? 0 : begin, end > kPartitionKeys ? kPartitionKeys : end};
}

template <class Tiles>
static void attend_prompt_partition(Tiles& tiles, const AttentionArgs& a, const AttentionBlock& b,
                                    int64_t partition, const PromptAttention& s) {
  const int64_t queries = b.tokens * b.heads;
  const int64_t tall = (queries + 15) / 16;
  const int64_t stride = state_floats(a.v_dim);
  const int64_t steps = a.head_dim / 32;
  PromptSpan all = {kPartitionKeys, 0};
  for (int64_t t = 0; t < b.tokens; t++) {
    const PromptSpan seen = seen_keys(a, b.token + t, partition);
    if (seen.begin >= seen.end) continue;
    if (seen.begin < all.begin) all.begin = seen.begin;
    if (seen.end > all.end) all.end = seen.end;
  }
  for (int64_t i = 0; i < queries; i++) s.part[i * stride + 1] = 0;
  if (all.begin >= all.end) return;
  const int64_t first = all.begin / kKeys;
  const int64_t last = (all.end + kKeys - 1) / kKeys;
  const int64_t kv_head = b.head / (a.heads / a.kv_heads);
  for (int64_t page = first; page < last; page++) {
    const int32_t id = b.pages[partition * kPartitionPages + page];
    uint16_t* keys = s.keys + page * 2 * steps * kTileHalves;
    expand_prompt_keys(a, a.kv.main.k(id, kv_head), keys);
    expand_prompt_values(a, a.kv.main.v(id, kv_head), page, all.end - page * kKeys, s.values);
    for (int64_t n = 0; n < tall; n += 2) {
      float* scores = s.scores + n * 16 * kPartitionKeys + page * kKeys;
      const uint16_t* q = s.queries + n * steps * kTileHalves;
      const auto multiply =
          n + 1 < tall ? &multiply_tiles<Tiles, 2, 2> : &multiply_tiles<Tiles, 1, 2>;
      multiply(tiles, q, steps * kTileHalves, keys, steps * kTileHalves, steps, scores,
               kPartitionKeys);
    }
  }
  for (int64_t i = 0; i < tall * 16; i++) {
    uint16_t* weights = s.weights + i / 16 * kPartitionPages * kTileHalves + i % 16 * 32;
    PromptSpan seen = {0, 0};
    if (i < queries) seen = seen_keys(a, b.token + i / b.heads, partition);
    if (seen.begin < seen.end) {
      soften_prompt(a, s.scores + i * kPartitionKeys, seen.begin, seen.end, first * kKeys,
                    last * kKeys, weights, s.part + i * stride);
      continue;
    }
    for (int64_t page = first; page < last; page++) {
      memset(weights + page * kTileHalves, 0, kKeys * sizeof(uint16_t));
    }
  }
  for (int64_t n = 0; n < tall; n += 2) {
    const uint16_t* weights = s.weights + (n * kPartitionPages + first) * kTileHalves;
    for (int64_t d = 0; d < a.v_dim / 16; d += 2) {
      const uint16_t* values = s.values + (d * kPartitionPages + first) * kTileHalves;
      const bool wide = d + 1 < a.v_dim / 16;
      const auto multiply =
          n + 1 < tall ? (wide ? &multiply_tiles<Tiles, 2, 2> : &multiply_tiles<Tiles, 2, 1>)
                       : (wide ? &multiply_tiles<Tiles, 1, 2> : &multiply_tiles<Tiles, 1, 1>);
      multiply(tiles, weights, kPartitionPages * kTileHalves, values, kPartitionPages * kTileHalves,
               last - first, s.part + n * 16 * stride + 16 + d * 16, stride);
    }
  }
}

template <class Tiles>
static void attend_prompt(const AttentionArgs& a, const AttentionBlock& b, float* scratch) {
  const PromptAttention s = cut_prompt_scratch(a, scratch);
  const int64_t stride = state_floats(a.v_dim);
  const int64_t queries = b.tokens * b.heads;
  int64_t begin = a.key_begin[b.token];
  int64_t end = a.key_end[b.token];
  for (int64_t t = 1; t < b.tokens; t++) {
    if (a.key_begin[b.token + t] < begin) begin = a.key_begin[b.token + t];
    if (a.key_end[b.token + t] > end) end = a.key_end[b.token + t];
  }
  Tiles tiles;
  tiles.configure();
  expand_prompt_queries(a, b, (queries + 15) / 16, s.queries);
  memset(s.total, 0, static_cast<size_t>(queries * stride) * 4);
  for (int64_t p = begin / kPartitionKeys; p * kPartitionKeys < end; p++) {
    attend_prompt_partition(tiles, a, b, p, s);
    for (int64_t i = 0; i < queries; i++) {
      merge_state(s.total + i * stride, s.part + i * stride, stride);
    }
  }
  tiles.release();
  finish_queries(a, b, s.total);
}

void attend_prompt_emulated(const AttentionArgs& a, const AttentionBlock& b, float* scratch) {
  attend_prompt<EmulatedTiles>(a, b, scratch);
}

#if defined(TANDEM_SIMD_AVX512)
void attend_prompt_machine(const AttentionArgs& a, const AttentionBlock& b, float* scratch) {
  attend_prompt<MachineTiles>(a, b, scratch);
}
#endif
