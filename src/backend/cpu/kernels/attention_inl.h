// The body of attention.h for one instruction set. Pages are expanded to floats
// in the first-level cache and met by all queries of a block; f16 keys and values
// of few queries are read in place. A partition's scores of a block are kept
// whole, so that maximum, sum and decay cost little next to the products.

#include "backend/cpu/kernels/kv_read_inl.h"

#if defined(TANDEM_SIMD_AVX512)
constexpr int kScoreQueries = 6;
constexpr int kValueQueries = 6;
constexpr int kValueVectors = 4;
#else
constexpr int kScoreQueries = 3;
constexpr int kValueQueries = 3;
constexpr int kValueVectors = 2;
#endif
constexpr float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct Scratch {
  float* keys;     // [head_dim][kKeys]
  float* values;   // [kKeys][padded v_dim]
  float* scores;   // [queries][kPartitionKeys]
  int32_t* begin;  // [queries] visible keys of the partition at hand
  int32_t* end;
  float* part;  // states
  float* total;
};

TANDEM_INLINE int64_t padded(int64_t v_dim) { return (v_dim + 15) / 16 * 16; }

static Scratch cut_scratch(const AttentionArgs& a, float* p) {
  Scratch s;
  s.keys = p;
  s.values = s.keys + kKeys * a.head_dim;
  s.scores = s.values + kKeys * padded(a.v_dim);
  s.part = s.scores + kBlockQueries * kPartitionKeys;
  s.total = s.part + kBlockQueries * state_floats(a.v_dim);
  s.begin = reinterpret_cast<int32_t*>(s.total + kBlockQueries * state_floats(a.v_dim));
  s.end = s.begin + kBlockQueries;
  return s;
}

static void prefetch(const uint8_t* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

TANDEM_INLINE const float* query(const AttentionArgs& a, const AttentionBlock& b, int64_t i) {
  return a.q + ((b.token + i / b.heads) * a.heads + b.head + i % b.heads) * a.head_dim;
}

// --- Scores --------------------------------------------------------------------

// Raw scores of kCount queries from `first` on against a page: keys of 16 bits read
// in place, or floats.
template <int kCount, bool kInPlace>
static void score(const AttentionArgs& a, const AttentionBlock& b, int64_t first, const void* keys,
                  float* scores) {
  const auto* halves = static_cast<const uint16_t*>(keys);
  const auto* floats = static_cast<const float*>(keys);
  const float* q[kCount];
  F acc[kCount][2];
  for (int i = 0; i < kCount; i++) {
    q[i] = query(a, b, first + i);
    acc[i][0] = acc[i][1] = f_zero();
  }
  for (int64_t d = 0; d < a.head_dim; d++) {
    const F k0 = kInPlace ? f_load_f16(halves + d * kKeys) : f_load(floats + d * kKeys);
    const F k1 = kInPlace ? f_load_f16(halves + d * kKeys + 16) : f_load(floats + d * kKeys + 16);
    for (int i = 0; i < kCount; i++) {
      const F x = f_set(q[i][d]);
      acc[i][0] = f_fma(x, k0, acc[i][0]);
      acc[i][1] = f_fma(x, k1, acc[i][1]);
    }
  }
  for (int i = 0; i < kCount; i++) {
    f_store(scores + (first + i) * kPartitionKeys, acc[i][0]);
    f_store(scores + (first + i) * kPartitionKeys + 16, acc[i][1]);
  }
}

template <bool kInPlace>
static void score_all(const AttentionArgs& a, const AttentionBlock& b, const void* keys,
                      float* scores) {
  const int64_t queries = b.tokens * b.heads;
  int64_t i = 0;
  for (; i + kScoreQueries <= queries; i += kScoreQueries) {
    score<kScoreQueries, kInPlace>(a, b, i, keys, scores);
  }
  switch (queries - i) {
    case 1: return score<1, kInPlace>(a, b, i, keys, scores);
    case 2: return score<2, kInPlace>(a, b, i, keys, scores);
    case 3: return score<3, kInPlace>(a, b, i, keys, scores);
    case 4: return score<4, kInPlace>(a, b, i, keys, scores);
    case 5: return score<5, kInPlace>(a, b, i, keys, scores);
    default: return;
  }
}

// --- Softmax -------------------------------------------------------------------

TANDEM_INLINE F final_score(const AttentionArgs& a, F x) {
  x = f_mul(x, f_set(a.scale));
  return a.softcap != 0 ? f_softcap(x, a.softcap) : x;
}

// -infinity for keys outside [begin, end), where x holds keys from `key` on.
TANDEM_INLINE F mask_keys(F x, int64_t key, int32_t begin, int32_t end) {
  const F index = f_add(f_load(kLanes), f_set(static_cast<float>(key)));
  const F none = f_set(-__builtin_inff());
  x = f_select_less(index, f_set(static_cast<float>(begin)), none, x);
  return f_select_less(index, f_set(static_cast<float>(end)), x, none);
}

// One query's raw scores of the partition to weights e^(score - maximum); what lies
// beside [begin, end) within a vector becomes 0. Sums run over each lane in turn.
static void soften(const AttentionArgs& a, float* scores, int32_t begin, int32_t end,
                   float* state) {
  const int64_t first = begin / 16 * 16;
  F max = f_set(-__builtin_inff());
  for (int64_t key = first; key < end; key += 16) {
    F x = final_score(a, f_load(scores + key));
    if (key < begin || key + 16 > end) x = mask_keys(x, key, begin, end);
    f_store(scores + key, x);
    max = f_max(max, x);
  }
  state[0] = f_max_lane(max);
  max = f_set(state[0]);
  F sum = f_zero();
  for (int64_t key = first; key < end; key += 16) {
    const F weight = f_exp_negative(f_sub(f_load(scores + key), max));
    f_store(scores + key, weight);
    sum = f_add(sum, weight);
  }
  state[1] = f_sum(sum);
}

// --- Values --------------------------------------------------------------------

// o += sum over keys [begin, end) of a page of weight * value, for kCount queries
// and kVectors vectors of dimensions from `dim` on.
template <int kCount, int kVectors, bool kInPlace>
static void add_values(const void* values, int64_t width, const float* weights, int64_t dim,
                       int64_t begin, int64_t end, float* states) {
  const int64_t stride = 16 + width;
  const auto* halves = static_cast<const uint16_t*>(values) + dim;
  const auto* floats = static_cast<const float*>(values) + dim;
  F acc[kCount][kVectors];
  for (int i = 0; i < kCount; i++) {
    const float* o = states + i * stride + 16 + dim;
    for (int n = 0; n < kVectors; n++) acc[i][n] = f_load(o + n * 16);
  }
  for (int64_t j = begin; j < end; j++) {
    F v[kVectors];
    for (int n = 0; n < kVectors; n++) {
      const int64_t at = j * width + n * 16;
      v[n] = kInPlace ? f_load_f16(halves + at) : f_load(floats + at);
    }
    for (int i = 0; i < kCount; i++) {
      const F weight = f_set(weights[i * kPartitionKeys + j]);
      for (int n = 0; n < kVectors; n++) acc[i][n] = f_fma(weight, v[n], acc[i][n]);
    }
  }
  for (int i = 0; i < kCount; i++) {
    float* o = states + i * stride + 16 + dim;
    for (int n = 0; n < kVectors; n++) f_store(o + n * 16, acc[i][n]);
  }
}

template <int kCount, bool kInPlace>
static void add_all_dims(const void* values, int64_t width, const float* weights, int64_t begin,
                         int64_t end, float* states) {
  int64_t dim = 0;
  for (; dim + kValueVectors * 16 <= width; dim += kValueVectors * 16) {
    add_values<kCount, kValueVectors, kInPlace>(values, width, weights, dim, begin, end, states);
  }
  for (; dim < width; dim += 16) {
    add_values<kCount, 1, kInPlace>(values, width, weights, dim, begin, end, states);
  }
}

// What a page's values add to all queries; weights and visible keys count from the
// page's first key, [first, first + kKeys) of the partition.
template <bool kInPlace>
static void add_page(const void* values, int64_t width, int64_t queries, int64_t first,
                     const Scratch& s, bool full, float* states) {
  const int64_t stride = 16 + width;
  const float* weights = s.scores + first;
  int64_t i = 0;
  if (full) {
    for (; i + kValueQueries <= queries; i += kValueQueries) {
      add_all_dims<kValueQueries, kInPlace>(values, width, weights + i * kPartitionKeys, 0, kKeys,
                                            states + i * stride);
    }
    for (; i + 3 <= queries; i += 3) {
      add_all_dims<3, kInPlace>(values, width, weights + i * kPartitionKeys, 0, kKeys,
                                states + i * stride);
    }
  }
  for (; i < queries; i++) {
    const int64_t begin = s.begin[i] > first ? s.begin[i] - first : 0;
    const int64_t end = s.end[i] < first + kKeys ? s.end[i] - first : kKeys;
    if (begin >= end) continue;
    add_all_dims<1, kInPlace>(values, width, weights + i * kPartitionKeys, begin, end,
                              states + i * stride);
  }
}

// --- A partition -----------------------------------------------------------------

// Keys of the partition that the block's queries see: [begin, end) some query,
// [all_begin, all_end) every query.
struct Seen {
  int64_t begin = kPartitionKeys;
  int64_t end = 0;
  int64_t all_begin = 0;
  int64_t all_end = kPartitionKeys;
};

static Seen look_at_keys(const AttentionArgs& a, const AttentionBlock& b, int64_t partition,
                         const Scratch& s) {
  Seen seen;
  const int64_t first = partition * kPartitionKeys;
  for (int64_t t = 0; t < b.tokens; t++) {
    int64_t begin = a.key_begin[b.token + t] - first;
    int64_t end = a.key_end[b.token + t] - first;
    if (begin < 0) begin = 0;
    if (end > kPartitionKeys) end = kPartitionKeys;
    if (end < begin) end = begin;
    if (begin < end) {
      if (begin < seen.begin) seen.begin = begin;
      if (end > seen.end) seen.end = end;
    }
    if (begin > seen.all_begin) seen.all_begin = begin;
    if (end < seen.all_end) seen.all_end = end;
    for (int64_t h = 0; h < b.heads; h++) {
      s.begin[t * b.heads + h] = static_cast<int32_t>(begin);
      s.end[t * b.heads + h] = static_cast<int32_t>(end);
    }
  }
  return seen;
}

// The planes of a page of a row, by its number in the row.
struct PageAt {
  const KvPlanes* planes;
  const uint8_t* keys;
  const uint8_t* values;
};

TANDEM_INLINE PageAt page_at(const AttentionArgs& a, const AttentionBlock& b, int64_t page) {
  const KvPlanes& kv = a.kv.at(page * kKeys);
  const int64_t head = b.head / (a.heads / a.kv_heads);
  return {&kv, kv.k(b.pages[page], head), kv.v(b.pages[page], head)};
}

TANDEM_INLINE bool in_place(const PlaneFormat& f, int64_t queries) {
  return f.codec == KvCodec::kF16 && queries <= kScoreQueries;
}

static void score_page(const AttentionArgs& a, const AttentionBlock& b, const PageAt& page,
                       const Scratch& s, float* scores) {
  const PlaneFormat& format = page.planes->k_format;
  if (in_place(format, b.tokens * b.heads)) return score_all<true>(a, b, page.keys, scores);
  expand_keys(format, page.keys, a.head_dim, s.keys);
  score_all<false>(a, b, s.keys, scores);
}

// Values that meet turned ones in one sum are turned as well.
static void add_page_values(const AttentionArgs& a, const AttentionBlock& b, const PageAt& page,
                            const Seen& seen, int64_t first, const Scratch& s, float* states) {
  const int64_t queries = b.tokens * b.heads;
  const int64_t width = padded(a.v_dim);
  const PlaneFormat& format = page.planes->v_format;
  const bool full = seen.all_begin <= first && seen.all_end >= first + kKeys;
  const bool turns = a.kv.main.v_format.codec == KvCodec::kTurbo && format.group == 0;
  if (in_place(format, queries) && width == a.v_dim && !turns) {
    return add_page<true>(page.values, width, queries, first, s, full, states);
  }
  const int64_t begin = seen.begin > first ? seen.begin - first : 0;
  const int64_t end = seen.end < first + kKeys ? seen.end - first : kKeys;
  expand_values(format, page.values, a.v_dim, begin, end, s.values);
  for (int64_t j = begin; turns && j < end; j++) {
    turn(s.values + j * width, a.v_dim, turbo_signs().data());
  }
  add_page<false>(s.values, width, queries, first, s, full, states);
}

static void attend_keys(const AttentionArgs& a, const AttentionBlock& b, int64_t partition,
                        const Scratch& s, float* states) {
  const int64_t queries = b.tokens * b.heads;
  const int64_t stride = state_floats(a.v_dim);
  memset(states, 0, static_cast<size_t>(queries * stride) * 4);
  const Seen seen = look_at_keys(a, b, partition, s);
  if (seen.begin >= seen.end) return;
  const int64_t first_page = partition * kPartitionPages;
  const int64_t begin = seen.begin / kKeys;
  const int64_t end = (seen.end + kKeys - 1) / kKeys;
  for (int64_t page = begin; page < end; page++) {
    const PageAt at = page_at(a, b, first_page + page);
    // While this page is met, the next one comes nearer; the values follow at once.
    const PageAt next = page + 1 < end ? page_at(a, b, first_page + page + 1) : at;
    if (page + 1 < end) prefetch(next.keys, at.planes->k_head_bytes);
    prefetch(at.values, at.planes->v_head_bytes);
    score_page(a, b, at, s, s.scores + page * kKeys);
  }
  for (int64_t i = 0; i < queries; i++) {
    if (s.begin[i] >= s.end[i]) continue;
    soften(a, s.scores + i * kPartitionKeys, s.begin[i], s.end[i], states + i * stride);
  }
  for (int64_t page = begin; page < end; page++) {
    add_page_values(a, b, page_at(a, b, first_page + page), seen, page * kKeys, s, states);
  }
}

static void merge_state(float* total, const float* part, int64_t stride) {
  if (part[1] == 0) return;
  if (total[1] == 0) {
    memcpy(total, part, static_cast<size_t>(stride) * 4);
    return;
  }
  const float max = total[0] > part[0] ? total[0] : part[0];
  float lanes[16] = {total[0] - max, part[0] - max};
  f_store(lanes, f_exp(f_load(lanes)));
  total[0] = max;
  total[1] = __builtin_fmaf(part[1], lanes[1], total[1] * lanes[0]);
  const F old_factor = f_set(lanes[0]);
  const F new_factor = f_set(lanes[1]);
  for (int64_t d = 16; d < stride; d += 16) {
    f_store(total + d, f_fma(f_load(part + d), new_factor, f_mul(f_load(total + d), old_factor)));
  }
}

static void finish_queries(const AttentionArgs& a, const AttentionBlock& b, float* states) {
  const int64_t stride = state_floats(a.v_dim);
  const bool turned = a.kv.main.v_format.codec == KvCodec::kTurbo;
  for (int64_t i = 0; i < b.tokens * b.heads; i++) {
    float* state = states + i * stride;
    const int64_t head = b.head + i % b.heads;
    float factor = 1.0f;
    float sum = state[1];
    if (a.sinks) {
      const float max = state[0] > a.sinks[head] ? state[0] : a.sinks[head];
      float lanes[16] = {state[0] - max, a.sinks[head] - max};
      f_store(lanes, f_exp(f_load(lanes)));
      factor = lanes[0];
      sum = __builtin_fmaf(sum, factor, lanes[1]);
    }
    if (turned) turn_back(state + 16, a.v_dim, turbo_signs().data());
    const F scale = f_set(factor / sum);
    float* out = a.out + ((b.token + i / b.heads) * a.heads + head) * a.v_dim;
    for (int64_t d = 0; d < a.v_dim; d += 16) {
      f_store_part(out + d, f_mul(f_load(state + 16 + d), scale), a.v_dim - d);
    }
  }
}

void attend_partition(const AttentionArgs& a, const AttentionBlock& b, int64_t partition,
                      float* scratch, float* states) {
  attend_keys(a, b, partition, cut_scratch(a, scratch), states);
}

void merge_partitions(const AttentionArgs& a, const AttentionBlock& b, int64_t count,
                      float* states) {
  const int64_t stride = state_floats(a.v_dim);
  const int64_t queries = b.tokens * b.heads;
  for (int64_t p = 1; p < count; p++) {
    for (int64_t i = 0; i < queries; i++) {
      merge_state(states + i * stride, states + (p * queries + i) * stride, stride);
    }
  }
  finish_queries(a, b, states);
}

void attend_block(const AttentionArgs& a, const AttentionBlock& b, float* scratch) {
  const Scratch s = cut_scratch(a, scratch);
  const int64_t stride = state_floats(a.v_dim);
  const int64_t queries = b.tokens * b.heads;
  int64_t begin = a.key_begin[b.token];
  int64_t end = a.key_end[b.token];
  for (int64_t t = 1; t < b.tokens; t++) {
    if (a.key_begin[b.token + t] < begin) begin = a.key_begin[b.token + t];
    if (a.key_end[b.token + t] > end) end = a.key_end[b.token + t];
  }
  memset(s.total, 0, static_cast<size_t>(queries * stride) * 4);
  for (int64_t p = begin / kPartitionKeys; p * kPartitionKeys < end; p++) {
    attend_keys(a, b, p, s, s.part);
    for (int64_t i = 0; i < queries; i++) {
      merge_state(s.total + i * stride, s.part + i * stride, stride);
    }
  }
  finish_queries(a, b, s.total);
}

#include "backend/cpu/kernels/prompt_attention_inl.h"
