// AVX2 loops of bare_loops.cpp.

TANDEM_TARGET("avx2,fma")
namespace {

constexpr int kPeakSteps = 4000;
constexpr double kAvx2WideOps = 2.0 * kPeakSteps * 8 * 16;
constexpr double kAvx2ByteOps = 2.0 * kPeakSteps * 8 * 32;

void peak_avx2_wide() {
  __m256i acc[8], w[2], x = _mm256_set1_epi16(3);
  for (auto& a : acc) a = _mm256_setzero_si256();
  for (auto& a : w) a = _mm256_set1_epi16(5);
  for (int i = 0; i < kPeakSteps; i++) {
    TANDEM_UNROLL for (int j = 0; j < 8; j++) {
      __asm__ volatile("" : "+x"(x));
      acc[j] = _mm256_add_epi32(acc[j], _mm256_madd_epi16(w[j % 2], x));
    }
  }
  for (auto& a : acc) __asm__ volatile("" : : "x"(a));
}

void peak_avx2_bytes() {
  __m256i acc[8], w[2], x = _mm256_set1_epi8(3);
  for (auto& a : acc) a = _mm256_setzero_si256();
  for (auto& a : w) a = _mm256_set1_epi8(5);
  for (int i = 0; i < kPeakSteps; i++) {
    TANDEM_UNROLL for (int j = 0; j < 8; j++) {
      __asm__ volatile("" : "+x"(x));
      acc[j] = _mm256_add_epi16(acc[j], _mm256_maddubs_epi16(w[j % 2], x));
    }
  }
  for (auto& a : acc) __asm__ volatile("" : : "x"(a));
}

TANDEM_INLINE __m256i load_256(const void* p) {
  return _mm256_load_si256(static_cast<const __m256i*>(p));
}
TANDEM_INLINE void store_256(void* p, __m256i a) {
  _mm256_store_si256(static_cast<__m256i*>(p), a);
}
template <class T>
TANDEM_INLINE __m256i set_lane(const T* p) {
  int32_t lane;
  std::memcpy(&lane, p, 4);
  return _mm256_set1_epi32(lane);
}

// The two nibbles of 32 bytes: quad 2i and 2i + 1 of eight rows.
TANDEM_INLINE void nibbles_of(__m256i both, __m256i& low, __m256i& high) {
  const __m256i mask = _mm256_set1_epi8(15);
  low = _mm256_and_si256(both, mask);
  high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
}

// Adds kTokens integer sums of eight rows to their floats.
TANDEM_INLINE __m256 drain_256(__m256 acc, __m256i sum, __m256 d, __m256 m, float scale,
                               float scaled_sum) {
  acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, _mm256_set1_ps(scale)), acc);
  return _mm256_fmadd_ps(m, _mm256_set1_ps(scaled_sum), acc);
}

// kTokens at a time, the last block overlapping the one before.
template <int kTokens, class F>
TANDEM_INLINE void for_token_blocks(int64_t tokens, F&& fn) {
  for (int64_t t = 0; t < tokens; t += kTokens) fn(t + kTokens <= tokens ? t : tokens - kTokens);
}

template <int kTokens>
static void avx2_wide_block(const Problem& p, const uint8_t* weights, int64_t tile, int64_t t0) {
  __m256 acc[kTokens][2];
  for (auto& a : acc) a[0] = a[1] = _mm256_setzero_ps();
  for (int64_t g = 0; g < kGroups; g++) {
    __m256i sums[kTokens][2];
    for (auto& s : sums) s[0] = s[1] = _mm256_setzero_si256();
    const int16_t* x = p.wide.data + (g * p.tokens + t0) * 32;
    for (int pair = 0; pair < 16; pair++, weights += 64) {
      const __m256i w0 = load_256(weights), w1 = load_256(weights + 32);
      TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
        const __m256i v = set_lane(x + t * 32 + pair * 2);
        sums[t][0] = _mm256_add_epi32(sums[t][0], _mm256_madd_epi16(w0, v));
        sums[t][1] = _mm256_add_epi32(sums[t][1], _mm256_madd_epi16(w1, v));
      }
    }
    for (int half = 0; half < 2; half++) {
      const __m256 d = _mm256_load_ps(p.scale.data + (tile * kGroups + g) * 16 + half * 8);
      const __m256 m = _mm256_load_ps(p.min.data + (tile * kGroups + g) * 16 + half * 8);
      for (int t = 0; t < kTokens; t++) {
        const int64_t at = g * p.tokens + t0 + t;
        acc[t][half] = drain_256(acc[t][half], sums[t][half], d, m, p.two_scale[at], p.two_sum[at]);
      }
    }
  }
  for (int t = 0; t < kTokens; t++) {
    _mm256_storeu_ps(p.out.data + (t0 + t) * kRows + tile * 16, acc[t][0]);
    _mm256_storeu_ps(p.out.data + (t0 + t) * kRows + tile * 16 + 8, acc[t][1]);
  }
}

// Codes of a tile as [group][16 pairs][16 rows][2] int16; columns 0 and 2 of a
// quad are a pair, then 1 and 3.
static void expand_wide_256(const Problem& p, int64_t tile, uint8_t* out) {
  const uint8_t* in = p.nibbles.data + tile * kGroups * 256;
  const __m256i even = _mm256_set1_epi16(255);
  for (int64_t i = 0; i < kGroups * 4; i++, in += 64, out += 256) {
    for (int half = 0; half < 2; half++) {
      __m256i quad[2];
      nibbles_of(load_256(in + half * 32), quad[0], quad[1]);
      for (int q = 0; q < 2; q++) {
        store_256(out + q * 128 + half * 32, _mm256_and_si256(quad[q], even));
        store_256(out + q * 128 + 64 + half * 32, _mm256_srli_epi16(quad[q], 8));
      }
    }
  }
}

template <int kTokens>
void avx2_wide(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end; tile++) {
    expand_wide_256(p, tile, scratch.weights.data);
    for_token_blocks<kTokens>(
        p.tokens, [&](int64_t t) { avx2_wide_block<kTokens>(p, scratch.weights.data, tile, t); });
  }
}

// Sums of a group in 16 bits: 16 products of at most 15 * 127 in each.
template <int kTokens, int kTerms>
static void avx2_bytes_block(const Problem& p, int64_t tile, int64_t t0) {
  const uint8_t* weights = p.nibbles.data + tile * kGroups * 256;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 acc[kTokens][2];
  for (auto& a : acc) a[0] = a[1] = _mm256_setzero_ps();
  for (int64_t g = 0; g < kGroups; g++, weights += 256) {
    const int8_t* x = (kTerms == 1 ? p.one.data : p.two.data) + (g * p.tokens + t0) * 32 * kTerms;
    for (int half = 0; half < 2; half++) {
      __m256i sums[kTokens][kTerms];
      for (auto& s : sums) {
        for (auto& v : s) v = _mm256_setzero_si256();
      }
      TANDEM_UNROLL for (int i = 0; i < 4; i++) {
        __m256i quad[2];
        nibbles_of(load_256(weights + i * 64 + half * 32), quad[0], quad[1]);
        TANDEM_UNROLL for (int q = 0; q < 2; q++) {
          TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
            TANDEM_UNROLL for (int c = 0; c < kTerms; c++) {
              const __m256i v = set_lane(x + (t * kTerms + c) * 32 + (i * 2 + q) * 4);
              sums[t][c] = _mm256_add_epi16(sums[t][c], _mm256_maddubs_epi16(quad[q], v));
            }
          }
        }
      }
      const __m256 d = _mm256_load_ps(p.scale.data + (tile * kGroups + g) * 16 + half * 8);
      const __m256 m = _mm256_load_ps(p.min.data + (tile * kGroups + g) * 16 + half * 8);
      TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
        const int64_t at = g * p.tokens + t0 + t;
        __m256i sum = _mm256_madd_epi16(sums[t][0], ones);
        if (kTerms == 2) {
          sum = _mm256_add_epi32(_mm256_slli_epi32(sum, 4),
                                 _mm256_madd_epi16(sums[t][kTerms - 1], ones));
        }
        acc[t][half] =
            drain_256(acc[t][half], sum, d, m, kTerms == 1 ? p.one_scale[at] : p.two_scale[at],
                      kTerms == 1 ? p.one_sum[at] : p.two_sum[at]);
      }
    }
  }
  for (int t = 0; t < kTokens; t++) {
    _mm256_storeu_ps(p.out.data + (t0 + t) * kRows + tile * 16, acc[t][0]);
    _mm256_storeu_ps(p.out.data + (t0 + t) * kRows + tile * 16 + 8, acc[t][1]);
  }
}

template <int kTokens, int kTerms>
void avx2_bytes(const Problem& p, Scratch&, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end; tile++) {
    for_token_blocks<kTokens>(p.tokens,
                              [&](int64_t t) { avx2_bytes_block<kTokens, kTerms>(p, tile, t); });
  }
}

}  // namespace
TANDEM_TARGET_END
