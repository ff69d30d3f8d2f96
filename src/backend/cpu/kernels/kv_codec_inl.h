// How pages hold keys and values (pages.h), for one instruction set: written token
// by token, read a page at a time into floats. Every set gives the same bits.
//
// Affine: code = round((x - bias) / scale) within its bits, x = code * scale + bias,
// scale and bias in f16 so that the smallest element has code 0 and the largest the
// highest. Turbo: turbo.h. A group that holds NaN or infinity reads as NaN.

#include "backend/cpu/kernels/activation_inl.h"

constexpr int kKeys = kPageTokens;

// --- Bits ----------------------------------------------------------------------

TANDEM_INLINE I i_load_bytes(const uint8_t* p);
TANDEM_INLINE I i_shift_down(I a, int n);
TANDEM_INLINE I i_shift_up(I a, int n);
TANDEM_INLINE I i_and(I a, I b);
TANDEM_INLINE I i_or(I a, I b);
// table[code] of each lane; the table has 2^kBits elements, and at least 16.
template <int kBits>
TANDEM_INLINE F f_lookup(const float* table, I codes);

// Where the code of each of 16 lanes lies in a stream of kBits bits each.
template <int kBits>
struct StreamLanes {
  uint8_t bytes[64] = {};  // two of the stream for each lane, then two zeros
  int32_t shift[16] = {};
  constexpr StreamLanes() {
    for (int i = 0; i < 16; i++) {
      bytes[4 * i] = static_cast<uint8_t>(i * kBits / 8);
      bytes[4 * i + 1] = static_cast<uint8_t>(i * kBits / 8 + 1);
      bytes[4 * i + 2] = bytes[4 * i + 3] = 0x80;
      shift[i] = i * kBits % 8;
    }
  }
};

#if defined(TANDEM_SIMD_AVX512)

TANDEM_INLINE I i_load_bytes(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TANDEM_INLINE I i_shift_down(I a, int n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n)); }
TANDEM_INLINE I i_shift_up(I a, int n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n)); }
TANDEM_INLINE I i_and(I a, I b) { return _mm512_and_si512(a, b); }
TANDEM_INLINE I i_or(I a, I b) { return _mm512_or_si512(a, b); }

// 16 codes of a stream; reads 16 bytes.
template <int kBits>
TANDEM_INLINE I i_unpack(const uint8_t* p) {
  if constexpr (kBits == 8) return i_load_bytes(p);
  static constexpr StreamLanes<kBits> kLanesOf;
  const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m512i pairs = _mm512_shuffle_epi8(all, _mm512_loadu_si512(kLanesOf.bytes));
  const __m512i moved = _mm512_srlv_epi32(pairs, _mm512_loadu_si512(kLanesOf.shift));
  return _mm512_and_si512(moved, _mm512_set1_epi32((1 << kBits) - 1));
}

template <int kBits>
TANDEM_INLINE F f_lookup(const float* table, I codes) {
  if constexpr (kBits <= 4) return _mm512_permutexvar_ps(codes, _mm512_loadu_ps(table));
  if constexpr (kBits == 5) {
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), codes, _mm512_loadu_ps(table + 16));
  }
  return _mm512_i32gather_ps(codes, table, 4);
}

#elif defined(TANDEM_SIMD_AVX2)

TANDEM_INLINE I i_load_bytes(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(load_64(p)), _mm256_cvtepu8_epi32(load_64(p + 8))};
}
TANDEM_INLINE I i_shift_down(I a, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_srl_epi32(a.a, count), _mm256_srl_epi32(a.b, count)};
}
TANDEM_INLINE I i_shift_up(I a, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_sll_epi32(a.a, count), _mm256_sll_epi32(a.b, count)};
}
TANDEM_INLINE I i_and(I a, I b) { return {_mm256_and_si256(a.a, b.a), _mm256_and_si256(a.b, b.b)}; }
TANDEM_INLINE I i_or(I a, I b) { return {_mm256_or_si256(a.a, b.a), _mm256_or_si256(a.b, b.b)}; }

template <int kBits>
TANDEM_INLINE __m256i unpack_half(__m256i all, const StreamLanes<kBits>& lanes, int half) {
  const auto* bytes = reinterpret_cast<const __m256i*>(lanes.bytes) + half;
  const auto* shift = reinterpret_cast<const __m256i*>(lanes.shift) + half;
  const __m256i pairs = _mm256_shuffle_epi8(all, _mm256_loadu_si256(bytes));
  const __m256i moved = _mm256_srlv_epi32(pairs, _mm256_loadu_si256(shift));
  return _mm256_and_si256(moved, _mm256_set1_epi32((1 << kBits) - 1));
}

template <int kBits>
TANDEM_INLINE I i_unpack(const uint8_t* p) {
  if constexpr (kBits == 8) return i_load_bytes(p);
  static constexpr StreamLanes<kBits> kLanesOf;
  const __m256i all = _mm256_broadcastsi128_si256(load_128(p));
  return {unpack_half<kBits>(all, kLanesOf, 0), unpack_half<kBits>(all, kLanesOf, 1)};
}

template <int kBits>
TANDEM_INLINE __m256 lookup_half(const float* table, __m256i codes) {
  if constexpr (kBits == 8) return _mm256_i32gather_ps(table, codes, 4);
  __m256 found = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), codes);
  // Bit 3 and up say which eight of the table.
  for (int part = 1; part < (1 << kBits) / 8; part++) {
    const __m256i own = _mm256_cmpeq_epi32(_mm256_srli_epi32(codes, 3), _mm256_set1_epi32(part));
    const __m256 other = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + part * 8), codes);
    found = _mm256_blendv_ps(found, other, _mm256_castsi256_ps(own));
  }
  return found;
}

template <int kBits>
TANDEM_INLINE F f_lookup(const float* table, I codes) {
  return {lookup_half<kBits>(table, codes.a), lookup_half<kBits>(table, codes.b)};
}

#else

TANDEM_INLINE I i_load_bytes(const uint8_t* p) {
  I r;
  for (int i = 0; i < 16; i++) r.v[i] = p[i];
  return r;
}
TANDEM_INLINE I i_shift_down(I a, int n) {
  for (int i = 0; i < 16; i++) a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> n);
  return a;
}
TANDEM_INLINE I i_shift_up(I a, int n) {
  for (int i = 0; i < 16; i++) a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << n);
  return a;
}
TANDEM_INLINE I i_and(I a, I b) {
  for (int i = 0; i < 16; i++) a.v[i] &= b.v[i];
  return a;
}
TANDEM_INLINE I i_or(I a, I b) {
  for (int i = 0; i < 16; i++) a.v[i] |= b.v[i];
  return a;
}

template <int kBits>
TANDEM_INLINE I i_unpack(const uint8_t* p) {
  if constexpr (kBits == 8) return i_load_bytes(p);
  static constexpr StreamLanes<kBits> kLanesOf;
  I r;
  for (int i = 0; i < 16; i++) {
    const int32_t pair = p[kLanesOf.bytes[4 * i]] | p[kLanesOf.bytes[4 * i + 1]] << 8;
    r.v[i] = pair >> kLanesOf.shift[i] & ((1 << kBits) - 1);
  }
  return r;
}

template <int kBits>
TANDEM_INLINE F f_lookup(const float* table, I codes) {
  F r;
  for (int i = 0; i < 16; i++) r.v[i] = table[codes.v[i]];
  return r;
}

#endif

// --- Turns -----------------------------------------------------------------------

// Walsh-Hadamard in place, natural order, without its factor.
static inline void hadamard(float* x, int64_t dim) {
  for (int64_t half = dim / 2; half >= 16; half /= 2) {
    for (int64_t i = 0; i < dim; i += 2 * half) {
      for (int64_t j = i; j < i + half; j += 16) {
        const F a = f_load(x + j);
        const F b = f_load(x + j + half);
        f_store(x + j, f_add(a, b));
        f_store(x + j + half, f_sub(a, b));
      }
    }
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int64_t i = 0; i < dim; i += 2 * half) {
      for (int64_t j = i; j < i + half; j++) {
        const float a = x[j];
        const float b = x[j + half];
        x[j] = a + b;
        x[j + half] = a - b;
      }
    }
  }
}

TANDEM_INLINE void times_signs(float* x, int64_t dim, const float* signs) {
  const F factor = f_set(1.0f / __builtin_sqrtf(static_cast<float>(dim)));
  for (int64_t i = 0; i < dim; i += 16) {
    f_store(x + i, f_mul(f_load(x + i), f_mul(f_load(signs + i), factor)));
  }
}

// turbo.h's turn, and back.
static inline void turn(float* x, int64_t dim, const float* signs) {
  times_signs(x, dim, signs);
  hadamard(x, dim);
}
static inline void turn_back(float* x, int64_t dim, const float* signs) {
  hadamard(x, dim);
  times_signs(x, dim, signs);
}
