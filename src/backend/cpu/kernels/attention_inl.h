// The body of attention.h for one instruction set. Pages are expanded to floats
// in the first-level cache and met by all queries of a block.

#include "backend/cpu/kernels/activation_inl.h"

#if defined(TANDEM_SIMD_AVX512)
constexpr int kScoreQueries = 6;
constexpr int kValueQueries = 3;
constexpr int kValueVectors = 4;
#else
constexpr int kScoreQueries = 3;
constexpr int kValueQueries = 3;
constexpr int kValueVectors = 2;
#endif
constexpr int kKeys = kPageTokens;
constexpr float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct Scratch {
  float* keys;     // [head_dim][kKeys]
  float* values;   // [kKeys][padded v_dim]
  float* scores;   // [queries][kKeys]
  float* decay;    // [queries] e^(old maximum - new maximum)
  int32_t* begin;  // [queries] visible keys of the page at hand
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
  s.decay = s.scores + kBlockQueries * kKeys;
  s.part = s.decay + kBlockQueries;
  s.total = s.part + kBlockQueries * state_floats(a.v_dim);
  s.begin = reinterpret_cast<int32_t*>(s.total + kBlockQueries * state_floats(a.v_dim));
  s.end = s.begin + kBlockQueries;
  return s;
}

TANDEM_INLINE F load_coded(KvCodec codec, const uint8_t* plane, int64_t at) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(plane) + at;
  if (codec == KvCodec::kF16) return f_load_f16(halves);
  if (codec == KvCodec::kBF16) return f_load_bf16(halves);
  return f_load(reinterpret_cast<const float*>(plane) + at);
}

TANDEM_INLINE float load_one(KvCodec codec, const uint8_t* plane, int64_t at) {
  if (codec == KvCodec::kF32) return reinterpret_cast<const float*>(plane)[at];
  const uint16_t half = reinterpret_cast<const uint16_t*>(plane)[at];
  return codec == KvCodec::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

// Keys and values of a page at hand, and what to fetch for the next.
struct PageData {
  const uint8_t* keys;
  const uint8_t* values;
  const uint8_t* next_keys;
  // With few queries, f16 planes are read in place; else as floats from scratch.
  bool in_place;
};

TANDEM_INLINE int64_t coded_bytes(KvCodec codec) { return codec == KvCodec::kF32 ? 4 : 2; }

static void expand_keys(const AttentionArgs& a, const PageData& page, float* out) {
  for (int64_t i = 0; i < a.head_dim * kKeys; i += 16) {
    f_store(out + i, load_coded(a.kv.codec, page.keys, i));
  }
}

static void expand_values(const AttentionArgs& a, const PageData& page, int64_t begin, int64_t end,
                          float* out) {
  for (int64_t j = begin; j < end; j++) {
    float* row = out + j * padded(a.v_dim);
    int64_t d = 0;
    for (; d + 16 <= a.v_dim; d += 16) {
      f_store(row + d, load_coded(a.kv.codec, page.values, j * a.v_dim + d));
    }
    for (; d < padded(a.v_dim); d++) {
      row[d] = d < a.v_dim ? load_one(a.kv.codec, page.values, j * a.v_dim + d) : 0.0f;
    }
  }
}

static void prefetch(const uint8_t* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 3);
}

TANDEM_INLINE const float* query(const AttentionArgs& a, const AttentionBlock& b, int64_t i) {
  return a.q + ((b.token + i / b.heads) * a.heads + b.head + i % b.heads) * a.head_dim;
}

// Raw scores of kCount queries from `first` on against the keys.
template <int kCount, bool kInPlace>
static void score(const AttentionArgs& a, const AttentionBlock& b, int64_t first,
                  const PageData& page, const Scratch& s) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(page.keys);
  const float* q[kCount];
  F acc[kCount][2];
  for (int i = 0; i < kCount; i++) {
    q[i] = query(a, b, first + i);
    acc[i][0] = acc[i][1] = f_zero();
  }
  for (int64_t d = 0; d < a.head_dim; d++) {
    const F k0 = kInPlace ? f_load_f16(halves + d * kKeys) : f_load(s.keys + d * kKeys);
    const F k1 = kInPlace ? f_load_f16(halves + d * kKeys + 16) : f_load(s.keys + d * kKeys + 16);
    for (int i = 0; i < kCount; i++) {
      const F x = f_set(q[i][d]);
      acc[i][0] = f_fma(x, k0, acc[i][0]);
      acc[i][1] = f_fma(x, k1, acc[i][1]);
    }
  }
  for (int i = 0; i < kCount; i++) {
    f_store(s.scores + (first + i) * kKeys, acc[i][0]);
    f_store(s.scores + (first + i) * kKeys + 16, acc[i][1]);
  }
}

template <bool kInPlace>
static void score_all(const AttentionArgs& a, const AttentionBlock& b, const PageData& page,
                      const Scratch& s) {
  const int64_t queries = b.tokens * b.heads;
  int64_t i = 0;
  for (; i + kScoreQueries <= queries; i += kScoreQueries) {
    score<kScoreQueries, kInPlace>(a, b, i, page, s);
  }
  switch (queries - i) {
    case 1: return score<1, kInPlace>(a, b, i, page, s);
    case 2: return score<2, kInPlace>(a, b, i, page, s);
    case 3: return score<3, kInPlace>(a, b, i, page, s);
    case 4: return score<4, kInPlace>(a, b, i, page, s);
    case 5: return score<5, kInPlace>(a, b, i, page, s);
    default: return;
  }
}

TANDEM_INLINE F final_score(const AttentionArgs& a, const float* p) {
  const F x = f_mul(f_load(p), f_set(a.scale));
  return a.softcap != 0 ? f_softcap(x, a.softcap) : x;
}

// -infinity for keys outside [begin, end), where x holds keys from `key` on.
TANDEM_INLINE F mask_keys(F x, int key, int32_t begin, int32_t end) {
  const F index = f_add(f_load(kLanes), f_set(static_cast<float>(key)));
  const F none = f_set(-__builtin_inff());
  x = f_select_less(index, f_set(static_cast<float>(begin)), none, x);
  return f_select_less(index, f_set(static_cast<float>(end)), x, none);
}

// Raw scores of the page to weights; maxima, sums and decays brought up to date.
static void soften(const AttentionArgs& a, int64_t queries, const Scratch& s, float* states) {
  const int64_t stride = state_floats(a.v_dim);
  for (int64_t i = 0; i < queries; i++) {
    s.decay[i] = 0;
    if (s.begin[i] >= s.end[i]) continue;
    float* p = s.scores + i * kKeys;
    F s0 = final_score(a, p);
    F s1 = final_score(a, p + 16);
    if (s.begin[i] > 0 || s.end[i] < kKeys) {
      s0 = mask_keys(s0, 0, s.begin[i], s.end[i]);
      s1 = mask_keys(s1, 16, s.begin[i], s.end[i]);
    }
    float* state = states + i * stride;
    const float highest = f_max_lane(f_max(s0, s1));
    const float max = state[0] > highest ? state[0] : highest;
    s.decay[i] = state[0] - max;
    state[0] = max;
    const F p0 = f_exp_negative(f_sub(s0, f_set(max)));
    const F p1 = f_exp_negative(f_sub(s1, f_set(max)));
    f_store(p, p0);
    f_store(p + 16, p1);
    state[2] = f_sum(f_add(p0, p1));
  }
  for (int64_t i = 0; i < queries; i += 16) {
    f_store(s.decay + i, f_exp_negative(f_load(s.decay + i)));
  }
  for (int64_t i = 0; i < queries; i++) {
    if (s.begin[i] >= s.end[i]) continue;
    float* state = states + i * stride;
    state[1] = __builtin_fmaf(state[1], s.decay[i], state[2]);
  }
}

// o = o * decay + sum over keys [begin, end) of weight * value, for kCount
// queries and kVectors vectors of dimensions from `dim` on.
template <int kCount, int kVectors, bool kInPlace>
static void add_values(const AttentionArgs& a, const PageData& page, const Scratch& s,
                       int64_t first, int64_t dim, int64_t begin, int64_t end, float* states) {
  const int64_t stride = state_floats(a.v_dim);
  F acc[kCount][kVectors];
  for (int i = 0; i < kCount; i++) {
    const F decay = f_set(s.decay[first + i]);
    const float* o = states + (first + i) * stride + 16 + dim;
    for (int n = 0; n < kVectors; n++) acc[i][n] = f_mul(f_load(o + n * 16), decay);
  }
  for (int64_t j = begin; j < end; j++) {
    const int64_t at = j * padded(a.v_dim) + dim;
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(page.values) + at;
    F v[kVectors];
    for (int n = 0; n < kVectors; n++) {
      v[n] = kInPlace ? f_load_f16(halves + n * 16) : f_load(s.values + at + n * 16);
    }
    for (int i = 0; i < kCount; i++) {
      const F weight = f_set(s.scores[(first + i) * kKeys + j]);
      for (int n = 0; n < kVectors; n++) acc[i][n] = f_fma(weight, v[n], acc[i][n]);
    }
  }
  for (int i = 0; i < kCount; i++) {
    float* o = states + (first + i) * stride + 16 + dim;
    for (int n = 0; n < kVectors; n++) f_store(o + n * 16, acc[i][n]);
  }
}

template <int kCount, bool kInPlace>
static void add_all_dims(const AttentionArgs& a, const PageData& page, const Scratch& s,
                         int64_t first, int64_t begin, int64_t end, float* states) {
  int64_t dim = 0;
  for (; dim + kValueVectors * 16 <= padded(a.v_dim); dim += kValueVectors * 16) {
    add_values<kCount, kValueVectors, kInPlace>(a, page, s, first, dim, begin, end, states);
  }
  for (; dim < padded(a.v_dim); dim += 16) {
    add_values<kCount, 1, kInPlace>(a, page, s, first, dim, begin, end, states);
  }
}

template <bool kInPlace>
static void add_all_values(const AttentionArgs& a, const PageData& page, int64_t queries, bool full,
                           const Scratch& s, float* states) {
  int64_t i = 0;
  if (full) {
    for (; i + kValueQueries <= queries; i += kValueQueries) {
      add_all_dims<kValueQueries, kInPlace>(a, page, s, i, 0, kKeys, states);
    }
  }
  for (; i < queries; i++) {
    if (s.begin[i] >= s.end[i]) continue;
    add_all_dims<1, kInPlace>(a, page, s, i, s.begin[i], s.end[i], states);
  }
}

struct PageView {
  bool any = false;
  bool full = true;       // every query sees every key
  int64_t begin = kKeys;  // keys that some query sees
  int64_t end = 0;
};

static PageView look_at_page(const AttentionArgs& a, const AttentionBlock& b, int64_t page,
                             const Scratch& s) {
  PageView view;
  const int64_t first = page * kKeys;
  for (int64_t t = 0; t < b.tokens; t++) {
    int64_t begin = a.key_begin[b.token + t] - first;
    int64_t end = a.key_end[b.token + t] - first;
    if (begin < 0) begin = 0;
    if (end > kKeys) end = kKeys;
    if (begin < end) {
      view.any = true;
      if (begin < view.begin) view.begin = begin;
      if (end > view.end) view.end = end;
    }
    if (begin > 0 || end < kKeys) view.full = false;
    for (int64_t h = 0; h < b.heads; h++) {
      s.begin[t * b.heads + h] = static_cast<int32_t>(begin);
      s.end[t * b.heads + h] = static_cast<int32_t>(end);
    }
  }
  return view;
}

// What one page adds to the states of the block's queries.
static void attend_page(const AttentionArgs& a, const AttentionBlock& b, const PageView& view,
                        const PageData& page, const Scratch& s, float* states) {
  const int64_t queries = b.tokens * b.heads;
  const int64_t bytes = coded_bytes(a.kv.codec);
  prefetch(page.values, kKeys * a.v_dim * bytes);
  if (page.in_place) {
    score_all<true>(a, b, page, s);
  } else {
    expand_keys(a, page, s.keys);
    score_all<false>(a, b, page, s);
  }
  if (page.next_keys) prefetch(page.next_keys, kKeys * a.head_dim * bytes);
  soften(a, queries, s, states);
  if (page.in_place) return add_all_values<true>(a, page, queries, view.full, s, states);
  expand_values(a, page, view.begin, view.end, s.values);
  add_all_values<false>(a, page, queries, view.full, s, states);
}

static void attend_pages(const AttentionArgs& a, const AttentionBlock& b, int64_t partition,
                         const Scratch& s, float* states) {
  const int64_t queries = b.tokens * b.heads;
  const int64_t stride = state_floats(a.v_dim);
  const int64_t kv_head = b.head / (a.heads / a.kv_heads);
  for (int64_t i = 0; i < queries; i++) {
    memset(states + i * stride, 0, static_cast<size_t>(stride) * 4);
    states[i * stride] = -__builtin_inff();
  }
  const bool in_place =
      a.kv.codec == KvCodec::kF16 && queries <= kScoreQueries && a.v_dim % 16 == 0;
  const int64_t first = partition * kPartitionPages;
  const int64_t last_key = a.key_end[b.token + b.tokens - 1];
  for (int64_t page = first; page < first + kPartitionPages; page++) {
    const PageView view = look_at_page(a, b, page, s);
    if (!view.any) continue;
    const bool more = (page + 1) * kKeys < last_key;
    const PageData data = {a.kv.k(b.pages[page], kv_head), a.kv.v(b.pages[page], kv_head),
                           more ? a.kv.k(b.pages[page + 1], kv_head) : nullptr, in_place};
    attend_page(a, b, view, data, s, states);
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

static void finish_queries(const AttentionArgs& a, const AttentionBlock& b, const float* states) {
  const int64_t stride = state_floats(a.v_dim);
  for (int64_t i = 0; i < b.tokens * b.heads; i++) {
    const float* state = states + i * stride;
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
    const F scale = f_set(factor / sum);
    float* out = a.out + ((b.token + i / b.heads) * a.heads + head) * a.v_dim;
    for (int64_t d = 0; d < a.v_dim; d += 16) {
      f_store_part(out + d, f_mul(f_load(state + 16 + d), scale), a.v_dim - d);
    }
  }
}

void attend_partition(const AttentionArgs& a, const AttentionBlock& b, int64_t partition,
                      float* scratch, float* states) {
  attend_pages(a, b, partition, cut_scratch(a, scratch), states);
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
    attend_pages(a, b, p, s, s.part);
    for (int64_t i = 0; i < queries; i++) {
      merge_state(s.total + i * stride, s.part + i * stride, stride);
    }
  }
  finish_queries(a, b, s.total);
}

#include "backend/cpu/kernels/prompt_attention_inl.h"
