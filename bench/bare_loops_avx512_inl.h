// AVX-512 loops of bare_loops.cpp.

TANDEM_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
namespace {

constexpr double kVnniOps = 2.0 * kPeakSteps * 12 * 64;
constexpr double kVnniWideOps = 2.0 * kPeakSteps * 12 * 32;

void peak_vnni() {
  __m512i acc[12], w[2], x = _mm512_set1_epi8(3);
  for (auto& a : acc) a = _mm512_setzero_si512();
  for (auto& a : w) a = _mm512_set1_epi8(5);
  for (int i = 0; i < kPeakSteps; i++) {
    TANDEM_UNROLL for (int j = 0; j < 12; j++) acc[j] = _mm512_dpbusd_epi32(acc[j], w[j % 2], x);
    __asm__ volatile("" : "+v"(x));
  }
  for (auto& a : acc) __asm__ volatile("" : : "v"(a));
}

void peak_vnni_wide() {
  __m512i acc[12], w[2], x = _mm512_set1_epi16(3);
  for (auto& a : acc) a = _mm512_setzero_si512();
  for (auto& a : w) a = _mm512_set1_epi16(5);
  for (int i = 0; i < kPeakSteps; i++) {
    TANDEM_UNROLL for (int j = 0; j < 12; j++) acc[j] = _mm512_dpwssd_epi32(acc[j], w[j % 2], x);
    __asm__ volatile("" : "+v"(x));
  }
  for (auto& a : acc) __asm__ volatile("" : : "v"(a));
}

TANDEM_INLINE __m512i load_512(const void* p) { return _mm512_load_si512(p); }
TANDEM_INLINE void store_512(void* p, __m512i a) { _mm512_store_si512(p, a); }
template <class T>
TANDEM_INLINE __m512i set_lane_512(const T* p) {
  int32_t lane;
  std::memcpy(&lane, p, 4);
  return _mm512_set1_epi32(lane);
}

TANDEM_INLINE void nibbles_of_512(__m512i both, __m512i& low, __m512i& high) {
  const __m512i mask = _mm512_set1_epi8(15);
  low = _mm512_and_si512(both, mask);
  high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
}
// The same times 16.
TANDEM_INLINE void high_nibbles_of_512(__m512i both, __m512i& low, __m512i& high) {
  const __m512i mask = _mm512_set1_epi8(static_cast<char>(0xf0));
  low = _mm512_and_si512(_mm512_slli_epi16(both, 4), mask);
  high = _mm512_and_si512(both, mask);
}

TANDEM_INLINE __m512 drain_512(__m512 acc, __m512i sum, __m512 d, __m512 m, float scale,
                               float scaled_sum) {
  acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, _mm512_set1_ps(scale)), acc);
  return _mm512_fmadd_ps(m, _mm512_set1_ps(scaled_sum), acc);
}

TANDEM_INLINE __m512 scale_of(const Problem& p, int64_t tile, int64_t g) {
  return _mm512_load_ps(p.scale.data + (tile * kGroups + g) * 16);
}
TANDEM_INLINE __m512 min_of(const Problem& p, int64_t tile, int64_t g) {
  return _mm512_load_ps(p.min.data + (tile * kGroups + g) * 16);
}

// Codes of a tile as bytes [group][8 quads][16 rows][4]; with two terms
// [group][16 times the codes, the codes].
template <int kTerms>
static void expand_bytes_512(const Problem& p, int64_t tile, uint8_t* out) {
  const uint8_t* in = p.nibbles.data + tile * kGroups * 256;
  for (int64_t g = 0; g < kGroups; g++) {
    for (int i = 0; i < 4; i++, in += 64) {
      __m512i low, high;
      const __m512i both = load_512(in);
      if (kTerms == 2) {
        high_nibbles_of_512(both, low, high);
        store_512(out + i * 128, low);
        store_512(out + i * 128 + 64, high);
      }
      nibbles_of_512(both, low, high);
      store_512(out + (kTerms - 1) * 512 + i * 128, low);
      store_512(out + (kTerms - 1) * 512 + i * 128 + 64, high);
    }
    out += 512 * kTerms;
  }
}

// Two terms go into the same sums: codes below 16 leave room to multiply the
// weights, not the sums, by the first term's base.
template <int kTokens, int kTerms, bool kDirect>
static void vnni_bytes_block(const Problem& p, const uint8_t* expanded, int64_t tile, int64_t t0) {
  __m512 acc[2][kTokens];
  for (auto& n : acc) {
    for (auto& a : n) a = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < kGroups; g++) {
    __m512i sums[2][kTokens];
    for (auto& n : sums) {
      for (auto& s : n) s = _mm512_setzero_si512();
    }
    const int8_t* x = (kTerms == 1 ? p.one.data : p.two.data) + (g * p.tokens + t0) * 32 * kTerms;
    TANDEM_UNROLL for (int i = 0; i < 4; i++) {
      TANDEM_UNROLL for (int c = 0; c < kTerms; c++) {
        __m512i quads[2][2];
        TANDEM_UNROLL for (int n = 0; n < 2; n++) {
          if constexpr (kDirect) {
            const __m512i both =
                load_512(p.nibbles.data + ((tile + n) * kGroups + g) * 256 + i * 64);
            if (kTerms == 2 && c == 0) {
              high_nibbles_of_512(both, quads[n][0], quads[n][1]);
            } else {
              nibbles_of_512(both, quads[n][0], quads[n][1]);
            }
          } else {
            const uint8_t* w = expanded + ((n * kGroups + g) * kTerms + c) * 512 + i * 128;
            quads[n][0] = load_512(w);
            quads[n][1] = load_512(w + 64);
          }
        }
        TANDEM_UNROLL for (int q = 0; q < 2; q++) {
          TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
            const __m512i v = set_lane_512(x + (t * kTerms + c) * 32 + (i * 2 + q) * 4);
            sums[0][t] = _mm512_dpbusd_epi32(sums[0][t], quads[0][q], v);
            sums[1][t] = _mm512_dpbusd_epi32(sums[1][t], quads[1][q], v);
          }
        }
      }
    }
    TANDEM_UNROLL for (int n = 0; n < 2; n++) {
      const __m512 d = scale_of(p, tile + n, g), m = min_of(p, tile + n, g);
      TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
        const int64_t at = g * p.tokens + t0 + t;
        acc[n][t] =
            drain_512(acc[n][t], sums[n][t], d, m, kTerms == 1 ? p.one_scale[at] : p.two_scale[at],
                      kTerms == 1 ? p.one_sum[at] : p.two_sum[at]);
      }
    }
  }
  for (int n = 0; n < 2; n++) {
    for (int t = 0; t < kTokens; t++) {
      _mm512_storeu_ps(p.out.data + (t0 + t) * kRows + (tile + n) * 16, acc[n][t]);
    }
  }
}

template <int kTokens, int kTerms>
void vnni_bytes(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  uint8_t* expanded = scratch.weights.data;
  for (int64_t tile = begin; tile < end; tile += 2) {
    if (p.tokens <= 4) {
      for_token_blocks<kTokens>(p.tokens, [&](int64_t t) {
        vnni_bytes_block<kTokens, kTerms, true>(p, nullptr, tile, t);
      });
      continue;
    }
    expand_bytes_512<kTerms>(p, tile, expanded);
    expand_bytes_512<kTerms>(p, tile + 1, expanded + kGroups * 512 * kTerms);
    for_token_blocks<kTokens>(p.tokens, [&](int64_t t) {
      vnni_bytes_block<kTokens, kTerms, false>(p, expanded, tile, t);
    });
  }
}

static void expand_wide_512(const Problem& p, int64_t tile, uint8_t* out) {
  const uint8_t* in = p.nibbles.data + tile * kGroups * 256;
  const __m512i even = _mm512_set1_epi16(255);
  for (int64_t i = 0; i < kGroups * 4; i++, in += 64, out += 256) {
    __m512i low, high;
    nibbles_of_512(load_512(in), low, high);
    store_512(out, _mm512_and_si512(low, even));
    store_512(out + 64, _mm512_srli_epi16(low, 8));
    store_512(out + 128, _mm512_and_si512(high, even));
    store_512(out + 192, _mm512_srli_epi16(high, 8));
  }
}

template <int kTokens>
static void vnni_wide_block(const Problem& p, const uint8_t* expanded, int64_t tile, int64_t t0) {
  __m512 acc[2][kTokens];
  for (auto& n : acc) {
    for (auto& a : n) a = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < kGroups; g++) {
    __m512i sums[2][kTokens];
    for (auto& n : sums) {
      for (auto& s : n) s = _mm512_setzero_si512();
    }
    const int16_t* x = p.wide.data + (g * p.tokens + t0) * 32;
    TANDEM_UNROLL for (int pair = 0; pair < 16; pair++) {
      const __m512i w0 = load_512(expanded + g * 1024 + pair * 64);
      const __m512i w1 = load_512(expanded + (kGroups + g) * 1024 + pair * 64);
      TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
        const __m512i v = set_lane_512(x + t * 32 + pair * 2);
        sums[0][t] = _mm512_dpwssd_epi32(sums[0][t], w0, v);
        sums[1][t] = _mm512_dpwssd_epi32(sums[1][t], w1, v);
      }
    }
    TANDEM_UNROLL for (int n = 0; n < 2; n++) {
      const __m512 d = scale_of(p, tile + n, g), m = min_of(p, tile + n, g);
      TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
        const int64_t at = g * p.tokens + t0 + t;
        acc[n][t] = drain_512(acc[n][t], sums[n][t], d, m, p.two_scale[at], p.two_sum[at]);
      }
    }
  }
  for (int n = 0; n < 2; n++) {
    for (int t = 0; t < kTokens; t++) {
      _mm512_storeu_ps(p.out.data + (t0 + t) * kRows + (tile + n) * 16, acc[n][t]);
    }
  }
}

template <int kTokens>
void vnni_wide(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end; tile += 2) {
    expand_wide_512(p, tile, scratch.weights.data);
    expand_wide_512(p, tile + 1, scratch.weights.data + kGroups * 1024);
    for_token_blocks<kTokens>(
        p.tokens, [&](int64_t t) { vnni_wide_block<kTokens>(p, scratch.weights.data, tile, t); });
  }
}

}  // namespace
TANDEM_TARGET_END

TANDEM_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")
namespace {

constexpr double kDotBf16Ops = 2.0 * kPeakSteps * 12 * 32;

void peak_dot_bf16() {
  __m512 acc[12];
  __m512i w[2], x = _mm512_set1_epi16(0x3f80);
  for (auto& a : acc) a = _mm512_setzero_ps();
  for (auto& a : w) a = _mm512_set1_epi16(0x3f80);
  for (int i = 0; i < kPeakSteps; i++) {
    TANDEM_UNROLL for (int j = 0; j < 12; j++) {
      acc[j] = _mm512_dpbf16_ps(acc[j], (__m512bh)w[j % 2], (__m512bh)x);
    }
    __asm__ volatile("" : "+v"(x));
  }
  for (auto& a : acc) __asm__ volatile("" : : "v"(a));
}

// The nibble at bit kBit of each lane as a weight, in the bits of a float.
template <int kBit>
TANDEM_INLINE __m512i weight_512(__m512i both, __m512 d, __m512 m) {
  __m512i code = kBit > 0 ? _mm512_srli_epi32(both, kBit) : both;
  if (kBit < 28) code = _mm512_and_si512(code, _mm512_set1_epi32(15));
  return _mm512_castps_si512(_mm512_fmadd_ps(d, _mm512_cvtepi32_ps(code), m));
}

// Two floats a lane as a pair of bf16, to the nearest, ties away from zero.
TANDEM_INLINE __m512i pair_512(__m512i first, __m512i second) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i top = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  return _mm512_ternarylogic_epi32(_mm512_add_epi32(second, half), top,
                                   _mm512_srli_epi32(_mm512_add_epi32(first, half), 16), 0xea);
}

// Weights of groups [begin, end) of a tile as bf16 [group][16 pairs][16 rows][2].
static void expand_bf16_512(const Problem& p, int64_t tile, int64_t begin, int64_t end,
                            uint8_t* out) {
  const uint8_t* in = p.nibbles.data + (tile * kGroups + begin) * 256;
  for (int64_t g = begin; g < end; g++) {
    const __m512 d = scale_of(p, tile, g), m = min_of(p, tile, g);
    for (int i = 0; i < 4; i++, in += 64, out += 256) {
      const __m512i both = load_512(in);
      store_512(out, pair_512(weight_512<0>(both, d, m), weight_512<8>(both, d, m)));
      store_512(out + 64, pair_512(weight_512<16>(both, d, m), weight_512<24>(both, d, m)));
      store_512(out + 128, pair_512(weight_512<4>(both, d, m), weight_512<12>(both, d, m)));
      store_512(out + 192, pair_512(weight_512<20>(both, d, m), weight_512<28>(both, d, m)));
    }
  }
}

template <int kTokens>
static void dot_bf16_block(const Problem& p, const uint8_t* expanded, int64_t tile, int64_t t0) {
  __m512 acc[2][kTokens];
  for (auto& n : acc) {
    for (auto& a : n) a = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < kGroups; g++) {
    const uint16_t* x = p.bf16.data + (g * p.tokens + t0) * 32;
    TANDEM_UNROLL for (int pair = 0; pair < 16; pair++) {
      const __m512i w0 = load_512(expanded + g * 1024 + pair * 64);
      const __m512i w1 = load_512(expanded + (kGroups + g) * 1024 + pair * 64);
      TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
        const __m512i v = set_lane_512(x + t * 32 + pair * 2);
        acc[0][t] = _mm512_dpbf16_ps(acc[0][t], (__m512bh)w0, (__m512bh)v);
        acc[1][t] = _mm512_dpbf16_ps(acc[1][t], (__m512bh)w1, (__m512bh)v);
      }
    }
  }
  for (int n = 0; n < 2; n++) {
    for (int t = 0; t < kTokens; t++) {
      _mm512_storeu_ps(p.out.data + (t0 + t) * kRows + (tile + n) * 16, acc[n][t]);
    }
  }
}

template <int kTokens>
void dot_bf16(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end; tile += 2) {
    expand_bf16_512(p, tile, 0, kGroups, scratch.weights.data);
    expand_bf16_512(p, tile + 1, 0, kGroups, scratch.weights.data + kGroups * 1024);
    for_token_blocks<kTokens>(
        p.tokens, [&](int64_t t) { dot_bf16_block<kTokens>(p, scratch.weights.data, tile, t); });
  }
}

}  // namespace
TANDEM_TARGET_END
