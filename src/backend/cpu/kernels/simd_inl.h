// Vectors of 16 lanes in each instruction set: one zmm, two ymm or an array.
// Every function gives the same bits everywhere, so one kernel body serves all.
// Included inside a target namespace by foreach_target.h.
//
//   F    16 floats
//   I    16 int32
//   W    32 int16, as 16 pairs
//   U    64 bytes, as 16 quads

#if defined(TANDEM_SIMD_AVX512)

using F = __m512;
using I = __m512i;
using W = __m512i;
using U = __m512i;

TANDEM_INLINE F f_zero() { return _mm512_setzero_ps(); }
TANDEM_INLINE F f_set(float x) { return _mm512_set1_ps(x); }
TANDEM_INLINE F f_load(const float* p) { return _mm512_loadu_ps(p); }
TANDEM_INLINE void f_store(float* p, F a) { _mm512_storeu_ps(p, a); }
TANDEM_INLINE F f_add(F a, F b) { return _mm512_add_ps(a, b); }
TANDEM_INLINE F f_sub(F a, F b) { return _mm512_sub_ps(a, b); }
TANDEM_INLINE F f_mul(F a, F b) { return _mm512_mul_ps(a, b); }
TANDEM_INLINE F f_div(F a, F b) { return _mm512_div_ps(a, b); }
TANDEM_INLINE F f_fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
// a > b ? a : b and a < b ? a : b: b where either is NaN.
TANDEM_INLINE F f_max(F a, F b) { return _mm512_max_ps(a, b); }
TANDEM_INLINE F f_min(F a, F b) { return _mm512_min_ps(a, b); }
TANDEM_INLINE F f_abs(F a) { return _mm512_abs_ps(a); }
TANDEM_INLINE F f_round(F a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// a < b ? x : y, lane by lane.
TANDEM_INLINE F f_select_less(F a, F b, F x, F y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
// a * 2^n for n in [-126, 127].
TANDEM_INLINE F f_times_power(F a, I n) {
  return _mm512_mul_ps(
      a, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23)));
}
TANDEM_INLINE F f_load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TANDEM_INLINE F f_load_bf16(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
TANDEM_INLINE void f_store_f16(uint16_t* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TANDEM_INLINE F f_from_u8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
TANDEM_INLINE F f_from_s8(const int8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
TANDEM_INLINE F f_from_i(I a) { return _mm512_cvtepi32_ps(a); }
// Lane i of the eight with lane i + 8, then 4, 2 and 1 apart.
TANDEM_INLINE __m256 f_halves_lo(F a) { return _mm512_castps512_ps256(a); }
TANDEM_INLINE __m256 f_halves_hi(F a) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
}

TANDEM_INLINE I i_zero() { return _mm512_setzero_si512(); }
TANDEM_INLINE I i_set(int32_t x) { return _mm512_set1_epi32(x); }
TANDEM_INLINE I i_add(I a, I b) { return _mm512_add_epi32(a, b); }
TANDEM_INLINE I i_max(I a, I b) { return _mm512_max_epi32(a, b); }
TANDEM_INLINE I i_abs_bits(F a) { return _mm512_castps_si512(_mm512_abs_ps(a)); }
// To the nearest integer, ties to even.
TANDEM_INLINE I i_round(F a) { return _mm512_cvtps_epi32(a); }
TANDEM_INLINE void i_store(int32_t* p, I a) { _mm512_storeu_si512(p, a); }
TANDEM_INLINE void i_store_s16(int16_t* p, I a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(a));
}
// Lanes of each four in the order 0 2 1 3.
TANDEM_INLINE I i_swap_middle(I a) { return _mm512_shuffle_epi32(a, _MM_PERM_DBCA); }
// acc + w.x * pair.x + w.y * pair.y in each lane.
TANDEM_INLINE I i_dot_pairs(I acc, W w, W pair) { return _mm512_dpwssd_epi32(acc, w, pair); }

// acc + the products of four unsigned and four signed bytes in each lane.
TANDEM_INLINE I i_dot_quads(I acc, U w, U quad) { return _mm512_dpbusd_epi32(acc, w, quad); }
TANDEM_INLINE I i_shift_left7(I a) { return _mm512_slli_epi32(a, 7); }
TANDEM_INLINE I i_shift_right7(I a) { return _mm512_srai_epi32(a, 7); }
TANDEM_INLINE void i_store_s8(int8_t* p, I a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
}
TANDEM_INLINE U u_set_quad(const int8_t* p) {
  int32_t quad;
  memcpy(&quad, p, 4);
  return _mm512_set1_epi32(quad);
}
TANDEM_INLINE void u_store(uint8_t* p, U a) { _mm512_store_si512(p, a); }

TANDEM_INLINE W w_load(const int16_t* p) { return _mm512_load_si512(p); }
TANDEM_INLINE void w_store(int16_t* p, W a) { _mm512_store_si512(p, a); }
TANDEM_INLINE W w_set_pair(const int16_t* p) {
  int32_t pair;
  memcpy(&pair, p, 4);
  return _mm512_set1_epi32(pair);
}
TANDEM_INLINE W w_sub(W a, int16_t b) { return _mm512_sub_epi16(a, _mm512_set1_epi16(b)); }

TANDEM_INLINE U u_load(const uint8_t* p) { return _mm512_load_si512(p); }
TANDEM_INLINE U u_low_nibbles(U a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
TANDEM_INLINE U u_high_nibbles(U a) {
  return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15));
}
// a | ((b >> shift) & mask) << 4, byte by byte; mask 1 or 3.
template <int kShift, int kMask>
TANDEM_INLINE U u_or_high(U a, U b) {
  const U moved = kShift >= 4 ? _mm512_srli_epi16(b, kShift >= 4 ? kShift - 4 : 0)
                              : _mm512_slli_epi16(b, kShift < 4 ? 4 - kShift : 0);
  return _mm512_ternarylogic_epi32(a, moved, _mm512_set1_epi8(kMask << 4), 0xf8);
}
// Bytes 0 and 2 of each quad; bytes 1 and 3.
TANDEM_INLINE W u_even(U a) { return _mm512_and_si512(a, _mm512_set1_epi16(255)); }
TANDEM_INLINE W u_odd(U a) { return _mm512_srli_epi16(a, 8); }

#elif defined(TANDEM_SIMD_AVX2)

struct F {
  __m256 a, b;
};
struct I {
  __m256i a, b;
};
using W = I;
using U = I;

TANDEM_INLINE F f_zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
TANDEM_INLINE F f_set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
TANDEM_INLINE F f_load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TANDEM_INLINE void f_store(float* p, F a) {
  _mm256_storeu_ps(p, a.a);
  _mm256_storeu_ps(p + 8, a.b);
}
TANDEM_INLINE F f_add(F a, F b) { return {_mm256_add_ps(a.a, b.a), _mm256_add_ps(a.b, b.b)}; }
TANDEM_INLINE F f_sub(F a, F b) { return {_mm256_sub_ps(a.a, b.a), _mm256_sub_ps(a.b, b.b)}; }
TANDEM_INLINE F f_mul(F a, F b) { return {_mm256_mul_ps(a.a, b.a), _mm256_mul_ps(a.b, b.b)}; }
TANDEM_INLINE F f_div(F a, F b) { return {_mm256_div_ps(a.a, b.a), _mm256_div_ps(a.b, b.b)}; }
TANDEM_INLINE F f_fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)};
}
TANDEM_INLINE F f_max(F a, F b) { return {_mm256_max_ps(a.a, b.a), _mm256_max_ps(a.b, b.b)}; }
TANDEM_INLINE F f_min(F a, F b) { return {_mm256_min_ps(a.a, b.a), _mm256_min_ps(a.b, b.b)}; }
TANDEM_INLINE F f_abs(F a) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(a.a, mask), _mm256_and_ps(a.b, mask)};
}
TANDEM_INLINE F f_round(F a) {
  return {_mm256_round_ps(a.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(a.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
TANDEM_INLINE F f_select_less(F a, F b, F x, F y) {
  return {_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(a.a, b.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(a.b, b.b, _CMP_LT_OQ))};
}
TANDEM_INLINE __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
TANDEM_INLINE F f_times_power(F a, I n) {
  return {_mm256_mul_ps(a.a, power_of_two(n.a)), _mm256_mul_ps(a.b, power_of_two(n.b))};
}
TANDEM_INLINE __m128i load_128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
TANDEM_INLINE F f_load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))};
}
TANDEM_INLINE __m256 widen_bf16(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p)), 16));
}
TANDEM_INLINE F f_load_bf16(const uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
TANDEM_INLINE void f_store_f16(uint16_t* p, F a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.a, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.b, kNearest));
}
TANDEM_INLINE __m128i load_64(const void* p) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(p));
}
TANDEM_INLINE F f_from_u8(const uint8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p + 8)))};
}
TANDEM_INLINE F f_from_s8(const int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p + 8)))};
}
TANDEM_INLINE F f_from_i(I a) { return {_mm256_cvtepi32_ps(a.a), _mm256_cvtepi32_ps(a.b)}; }
TANDEM_INLINE __m256 f_halves_lo(F a) { return a.a; }
TANDEM_INLINE __m256 f_halves_hi(F a) { return a.b; }

TANDEM_INLINE I i_zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
TANDEM_INLINE I i_set(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
TANDEM_INLINE I i_add(I a, I b) { return {_mm256_add_epi32(a.a, b.a), _mm256_add_epi32(a.b, b.b)}; }
TANDEM_INLINE I i_max(I a, I b) { return {_mm256_max_epi32(a.a, b.a), _mm256_max_epi32(a.b, b.b)}; }
TANDEM_INLINE I i_abs_bits(F a) {
  a = f_abs(a);
  return {_mm256_castps_si256(a.a), _mm256_castps_si256(a.b)};
}
TANDEM_INLINE I i_round(F a) { return {_mm256_cvtps_epi32(a.a), _mm256_cvtps_epi32(a.b)}; }
TANDEM_INLINE void i_store(int32_t* p, I a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.b);
}
TANDEM_INLINE void i_store_s16(int16_t* p, I a) {
  const __m256i packed = _mm256_packs_epi32(a.a, a.b);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
TANDEM_INLINE I i_swap_middle(I a) {
  return {_mm256_shuffle_epi32(a.a, 0xd8), _mm256_shuffle_epi32(a.b, 0xd8)};
}
TANDEM_INLINE I i_dot_pairs(I acc, W w, W pair) {
  return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(w.a, pair.a)),
          _mm256_add_epi32(acc.b, _mm256_madd_epi16(w.b, pair.b))};
}

TANDEM_INLINE W w_load(const int16_t* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_load_si256(q), _mm256_load_si256(q + 1)};
}
TANDEM_INLINE void w_store(int16_t* p, W a) {
  __m256i* q = reinterpret_cast<__m256i*>(p);
  _mm256_store_si256(q, a.a);
  _mm256_store_si256(q + 1, a.b);
}
TANDEM_INLINE W w_set_pair(const int16_t* p) {
  int32_t pair;
  memcpy(&pair, p, 4);
  return i_set(pair);
}
TANDEM_INLINE W w_sub(W a, int16_t b) {
  const __m256i c = _mm256_set1_epi16(b);
  return {_mm256_sub_epi16(a.a, c), _mm256_sub_epi16(a.b, c)};
}

TANDEM_INLINE U u_load(const uint8_t* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_load_si256(q), _mm256_load_si256(q + 1)};
}
TANDEM_INLINE U u_low_nibbles(U a) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(a.a, mask), _mm256_and_si256(a.b, mask)};
}
TANDEM_INLINE U u_high_nibbles(U a) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(_mm256_srli_epi16(a.a, 4), mask),
          _mm256_and_si256(_mm256_srli_epi16(a.b, 4), mask)};
}
template <int kShift, int kMask>
TANDEM_INLINE __m256i or_high(__m256i a, __m256i b) {
  const __m256i moved = kShift >= 4 ? _mm256_srli_epi16(b, kShift >= 4 ? kShift - 4 : 0)
                                    : _mm256_slli_epi16(b, kShift < 4 ? 4 - kShift : 0);
  return _mm256_or_si256(a, _mm256_and_si256(moved, _mm256_set1_epi8(kMask << 4)));
}
template <int kShift, int kMask>
TANDEM_INLINE U u_or_high(U a, U b) {
  return {or_high<kShift, kMask>(a.a, b.a), or_high<kShift, kMask>(a.b, b.b)};
}
TANDEM_INLINE W u_even(U a) {
  const __m256i mask = _mm256_set1_epi16(255);
  return {_mm256_and_si256(a.a, mask), _mm256_and_si256(a.b, mask)};
}
TANDEM_INLINE W u_odd(U a) { return {_mm256_srli_epi16(a.a, 8), _mm256_srli_epi16(a.b, 8)}; }

#else  // TANDEM_SIMD_SCALAR

struct F {
  float v[16];
};
struct I {
  int32_t v[16];
};
struct W {
  int16_t v[32];
};
struct U {
  uint8_t v[64];
};

TANDEM_INLINE F f_set(float x) {
  F r;
  for (int i = 0; i < 16; i++) r.v[i] = x;
  return r;
}
TANDEM_INLINE F f_zero() { return f_set(0); }
TANDEM_INLINE F f_load(const float* p) {
  F r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
TANDEM_INLINE void f_store(float* p, F a) { memcpy(p, a.v, sizeof a.v); }
TANDEM_INLINE F f_add(F a, F b) {
  for (int i = 0; i < 16; i++) a.v[i] += b.v[i];
  return a;
}
TANDEM_INLINE F f_sub(F a, F b) {
  for (int i = 0; i < 16; i++) a.v[i] -= b.v[i];
  return a;
}
TANDEM_INLINE F f_mul(F a, F b) {
  for (int i = 0; i < 16; i++) a.v[i] *= b.v[i];
  return a;
}
TANDEM_INLINE F f_div(F a, F b) {
  for (int i = 0; i < 16; i++) a.v[i] /= b.v[i];
  return a;
}
TANDEM_INLINE F f_fma(F a, F b, F c) {
  for (int i = 0; i < 16; i++) a.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return a;
}
TANDEM_INLINE F f_max(F a, F b) {
  for (int i = 0; i < 16; i++) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
TANDEM_INLINE F f_min(F a, F b) {
  for (int i = 0; i < 16; i++) a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
  return a;
}
TANDEM_INLINE F f_abs(F a) {
  for (int i = 0; i < 16; i++) a.v[i] = __builtin_fabsf(a.v[i]);
  return a;
}
TANDEM_INLINE F f_round(F a) {
  for (int i = 0; i < 16; i++) a.v[i] = __builtin_rintf(a.v[i]);
  return a;
}
TANDEM_INLINE F f_select_less(F a, F b, F x, F y) {
  for (int i = 0; i < 16; i++) y.v[i] = a.v[i] < b.v[i] ? x.v[i] : y.v[i];
  return y;
}
TANDEM_INLINE F f_times_power(F a, I n) {
  for (int i = 0; i < 16; i++) {
    const uint32_t bits = (static_cast<uint32_t>(n.v[i]) + 127u) << 23;
    float power;
    memcpy(&power, &bits, 4);
    a.v[i] *= power;
  }
  return a;
}
TANDEM_INLINE F f_load_f16(const uint16_t* p) {
  F r;
  for (int i = 0; i < 16; i++) r.v[i] = f16_to_f32(p[i]);
  return r;
}
TANDEM_INLINE F f_load_bf16(const uint16_t* p) {
  F r;
  for (int i = 0; i < 16; i++) r.v[i] = bf16_to_f32(p[i]);
  return r;
}
TANDEM_INLINE void f_store_f16(uint16_t* p, F a) {
  for (int i = 0; i < 16; i++) p[i] = f32_to_f16(a.v[i]);
}
TANDEM_INLINE F f_from_u8(const uint8_t* p) {
  F r;
  for (int i = 0; i < 16; i++) r.v[i] = p[i];
  return r;
}
TANDEM_INLINE F f_from_s8(const int8_t* p) {
  F r;
  for (int i = 0; i < 16; i++) r.v[i] = p[i];
  return r;
}
TANDEM_INLINE F f_from_i(I a) {
  F r;
  for (int i = 0; i < 16; i++) r.v[i] = static_cast<float>(a.v[i]);
  return r;
}

TANDEM_INLINE I i_set(int32_t x) {
  I r;
  for (int i = 0; i < 16; i++) r.v[i] = x;
  return r;
}
TANDEM_INLINE I i_zero() { return i_set(0); }
TANDEM_INLINE I i_add(I a, I b) {
  for (int i = 0; i < 16; i++) a.v[i] += b.v[i];
  return a;
}
TANDEM_INLINE I i_max(I a, I b) {
  for (int i = 0; i < 16; i++) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
TANDEM_INLINE I i_abs_bits(F a) {
  I r;
  a = f_abs(a);
  memcpy(r.v, a.v, sizeof r.v);
  return r;
}
TANDEM_INLINE I i_round(F a) {
  I r;
  for (int i = 0; i < 16; i++) {
    const bool fits = a.v[i] > -2147483648.0f && a.v[i] < 2147483648.0f;
    r.v[i] = fits ? static_cast<int32_t>(__builtin_rintf(a.v[i])) : INT32_MIN;
  }
  return r;
}
TANDEM_INLINE void i_store(int32_t* p, I a) { memcpy(p, a.v, sizeof a.v); }
TANDEM_INLINE void i_store_s16(int16_t* p, I a) {
  for (int i = 0; i < 16; i++) {
    p[i] = static_cast<int16_t>(a.v[i] > 32767 ? 32767 : a.v[i] < -32768 ? -32768 : a.v[i]);
  }
}
TANDEM_INLINE I i_swap_middle(I a) {
  for (int i = 0; i < 16; i += 4) {
    const int32_t middle = a.v[i + 1];
    a.v[i + 1] = a.v[i + 2];
    a.v[i + 2] = middle;
  }
  return a;
}
TANDEM_INLINE I i_dot_pairs(I acc, W w, W pair) {
  for (int i = 0; i < 16; i++) {
    acc.v[i] += w.v[2 * i] * pair.v[2 * i] + w.v[2 * i + 1] * pair.v[2 * i + 1];
  }
  return acc;
}

TANDEM_INLINE W w_load(const int16_t* p) {
  W r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
TANDEM_INLINE void w_store(int16_t* p, W a) { memcpy(p, a.v, sizeof a.v); }
TANDEM_INLINE W w_set_pair(const int16_t* p) {
  W r;
  for (int i = 0; i < 32; i++) r.v[i] = p[i & 1];
  return r;
}
TANDEM_INLINE W w_sub(W a, int16_t b) {
  for (int i = 0; i < 32; i++) a.v[i] = static_cast<int16_t>(a.v[i] - b);
  return a;
}

TANDEM_INLINE U u_load(const uint8_t* p) {
  U r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
TANDEM_INLINE U u_low_nibbles(U a) {
  for (int i = 0; i < 64; i++) a.v[i] &= 15;
  return a;
}
TANDEM_INLINE U u_high_nibbles(U a) {
  for (int i = 0; i < 64; i++) a.v[i] >>= 4;
  return a;
}
template <int kShift, int kMask>
TANDEM_INLINE U u_or_high(U a, U b) {
  for (int i = 0; i < 64; i++) {
    a.v[i] = static_cast<uint8_t>(a.v[i] | ((b.v[i] >> kShift) & kMask) << 4);
  }
  return a;
}
TANDEM_INLINE W u_even(U a) {
  W r;
  for (int i = 0; i < 32; i++) r.v[i] = a.v[2 * i];
  return r;
}
TANDEM_INLINE W u_odd(U a) {
  W r;
  for (int i = 0; i < 32; i++) r.v[i] = a.v[2 * i + 1];
  return r;
}

#endif

// Sums and maxima of the 16 lanes: lane i with lane i + 8, then 4, 2 and 1
// apart, the same order everywhere.
#if defined(TANDEM_SIMD_SCALAR)

TANDEM_INLINE float f_sum(F a) {
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; i++) a.v[i] += a.v[i + step];
  }
  return a.v[0];
}
TANDEM_INLINE float f_max_lane(F a) {
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; i++) a.v[i] = a.v[i] > a.v[i + step] ? a.v[i] : a.v[i + step];
  }
  return a.v[0];
}
TANDEM_INLINE int32_t i_max_lane(I a) {
  int32_t r = a.v[0];
  for (int i = 1; i < 16; i++) r = a.v[i] > r ? a.v[i] : r;
  return r;
}
TANDEM_INLINE int32_t i_sum(I a) {
  int32_t r = 0;
  for (int i = 0; i < 16; i++) r += a.v[i];
  return r;
}

#else

TANDEM_INLINE float f_sum(F a) {
  const __m256 b = _mm256_add_ps(f_halves_lo(a), f_halves_hi(a));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
TANDEM_INLINE float f_max_lane(F a) {
  const __m256 b = _mm256_max_ps(f_halves_lo(a), f_halves_hi(a));
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}
TANDEM_INLINE __m256i i_half_lo(I a) {
#if defined(TANDEM_SIMD_AVX512)
  return _mm512_castsi512_si256(a);
#else
  return a.a;
#endif
}
TANDEM_INLINE __m256i i_half_hi(I a) {
#if defined(TANDEM_SIMD_AVX512)
  return _mm512_extracti64x4_epi64(a, 1);
#else
  return a.b;
#endif
}
TANDEM_INLINE int32_t i_max_lane(I a) {
  const __m256i b = _mm256_max_epi32(i_half_lo(a), i_half_hi(a));
  __m128i c = _mm_max_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}
TANDEM_INLINE int32_t i_sum(I a) {
  const __m256i b = _mm256_add_epi32(i_half_lo(a), i_half_hi(a));
  __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}

#endif

// The first `count` lanes of a vector; the others load as 0.
TANDEM_INLINE F f_load_part(const float* p, int64_t count) {
  if (count >= 16) return f_load(p);
  float lanes[16] = {};
  for (int64_t i = 0; i < count; i++) lanes[i] = p[i];
  return f_load(lanes);
}
TANDEM_INLINE void f_store_part(float* p, F a, int64_t count) {
  if (count >= 16) return f_store(p, a);
  float lanes[16];
  f_store(lanes, a);
  for (int64_t i = 0; i < count; i++) p[i] = lanes[i];
}

TANDEM_INLINE F exp_mantissa(F r) {
  F p = f_set(1.9875691500e-4f);
  p = f_fma(p, r, f_set(1.3981999507e-3f));
  p = f_fma(p, r, f_set(8.3334519073e-3f));
  p = f_fma(p, r, f_set(4.1665795894e-2f));
  p = f_fma(p, r, f_set(1.6666665459e-1f));
  p = f_fma(p, r, f_set(5.0000001201e-1f));
  return f_fma(p, f_mul(r, r), f_add(r, f_set(1.0f)));
}

// t - n ln 2
TANDEM_INLINE F exp_remainder(F t, F n) {
  const F r = f_fma(n, f_set(-0.693359375f), t);
  return f_fma(n, f_set(2.12194440e-4f), r);
}

// f_exp for x <= 0: the same bits, in fewer steps.
TANDEM_INLINE F f_exp_negative(F x) {
  const F floor = f_set(-87.33654f);
  const F t = f_max(floor, x);
  const F n = f_round(f_mul(t, f_set(1.44269504f)));
  const F y = f_times_power(exp_mantissa(exp_remainder(t, n)), i_round(n));
  return f_select_less(x, floor, f_zero(), y);
}

// e^x to within 2 ulp; 0 below -87.3, infinity above 88.7, NaN stays.
TANDEM_INLINE F f_exp(F x) {
  const F floor = f_set(-87.33654f);
  const F ceiling = f_set(88.72283f);
  const F t = f_min(ceiling, f_max(floor, x));
  const F n = f_round(f_mul(t, f_set(1.44269504f)));
  const F p = exp_mantissa(exp_remainder(t, n));
  // In two steps, since 2^128 is not a float.
  const F half = f_round(f_mul(n, f_set(0.5f)));
  F y = f_times_power(f_times_power(p, i_round(half)), i_round(f_sub(n, half)));
  y = f_select_less(x, floor, f_zero(), y);
  return f_select_less(ceiling, x, f_set(__builtin_inff()), y);
}
