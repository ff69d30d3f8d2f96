// Pages to floats; see kv_codec_inl.h.

#include "backend/cpu/kernels/kv_codec_inl.h"

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

// The codes of dim i of eight, 16 keys from `key` on; rows: the bytes of these eight.
template <int kBits>
TANDEM_INLINE I key_codes(const uint8_t* rows, int i, int key) {
  const int byte = i * kBits / 8;
  const int shift = i * kBits % 8;
  I code = i_load_bytes(rows + byte * kKeys + key);
  if (shift + kBits > 8) {
    code = i_or(code, i_shift_up(i_load_bytes(rows + (byte + 1) * kKeys + key), 8));
  }
  if (shift > 0) code = i_shift_down(code, shift);
  return kBits == 8 ? code : i_and(code, i_set((1 << kBits) - 1));
}

template <int kBits>
static void expand_affine_keys(const uint8_t* plane, int64_t dim, int64_t group, float* out) {
  const int64_t groups = dim / group;
  const auto* scales = reinterpret_cast<const uint16_t*>(plane + kKeys * dim * kBits / 8);
  const uint16_t* biases = scales + groups * kKeys;
  for (int64_t g = 0; g < groups; g++) {
    for (int key = 0; key < kKeys; key += 16) {
      const F scale = f_load_f16(scales + g * kKeys + key);
      const F bias = f_load_f16(biases + g * kKeys + key);
      for (int64_t d = g * group; d < (g + 1) * group; d += 8) {
        const uint8_t* rows = plane + d * kBits / 8 * kKeys;
        for (int i = 0; i < 8; i++) {
          const F code = f_from_i(key_codes<kBits>(rows, i, key));
          f_store(out + (d + i) * kKeys + key, f_fma(code, scale, bias));
        }
      }
    }
  }
}

// A K plane as floats [dim][kKeys].
static void expand_keys(const PlaneFormat& f, const uint8_t* plane, int64_t dim, float* out) {
  if (f.group == 0) {
    for (int64_t i = 0; i < dim * kKeys; i += 16) f_store(out + i, load_coded(f.codec, plane, i));
    return;
  }
  switch (f.bits) {
    case 2: return expand_affine_keys<2>(plane, dim, f.group, out);
    case 4: return expand_affine_keys<4>(plane, dim, f.group, out);
    case 5: return expand_affine_keys<5>(plane, dim, f.group, out);
    default: return expand_affine_keys<8>(plane, dim, f.group, out);
  }
}

template <int kBits, bool kTurboLevels>
static void expand_coded_values(const PlaneFormat& f, const uint8_t* plane, int64_t dim,
                                int64_t begin, int64_t end, float* out) {
  const int64_t bytes = dim * kBits / 8;
  const int64_t groups = dim / f.group;
  const auto* scales = reinterpret_cast<const uint16_t*>(plane + kKeys * bytes);
  const uint16_t* biases = scales + kKeys * groups;
  const float* levels = kTurboLevels ? turbo_levels(kBits) : nullptr;
  float scale_of[kTurboDimMax];
  float bias_of[kTurboDimMax];
  for (int64_t i = 0; i < kKeys * groups; i += 16) {
    f_store(scale_of + i, f_load_f16(scales + i));
    if (!kTurboLevels) f_store(bias_of + i, f_load_f16(biases + i));
  }
  for (int64_t j = begin; j < end; j++) {
    const uint8_t* stream = plane + j * bytes;
    for (int64_t g = 0; g < groups; g++) {
      const F scale = f_set(scale_of[j * groups + g]);
      const F bias = kTurboLevels ? f_zero() : f_set(bias_of[j * groups + g]);
      for (int64_t d = g * f.group; d < (g + 1) * f.group; d += 16) {
        const I code = i_unpack<kBits>(stream + d * kBits / 8);
        const F x = kTurboLevels ? f_mul(f_lookup<kBits>(levels, code), scale)
                                 : f_fma(f_from_i(code), scale, bias);
        f_store(out + j * dim + d, x);
      }
    }
  }
}

static void expand_dense_values(KvCodec codec, const uint8_t* plane, int64_t dim, int64_t begin,
                                int64_t end, float* out) {
  const int64_t width = (dim + 15) / 16 * 16;
  for (int64_t j = begin; j < end; j++) {
    float* row = out + j * width;
    int64_t d = 0;
    for (; d + 16 <= dim; d += 16) f_store(row + d, load_coded(codec, plane, j * dim + d));
    for (; d < width; d++) row[d] = d < dim ? load_one(codec, plane, j * dim + d) : 0.0f;
  }
}

// Keys [begin, end) of a V plane as floats [kKeys][dim rounded up to 16]; turbo's
// stay turned.
static void expand_values(const PlaneFormat& f, const uint8_t* plane, int64_t dim, int64_t begin,
                          int64_t end, float* out) {
  if (f.group == 0) return expand_dense_values(f.codec, plane, dim, begin, end, out);
  if (f.codec == KvCodec::kAffine) {
    if (f.bits == 4) return expand_coded_values<4, false>(f, plane, dim, begin, end, out);
    return expand_coded_values<8, false>(f, plane, dim, begin, end, out);
  }
  switch (f.bits) {
    case 2: return expand_coded_values<2, true>(f, plane, dim, begin, end, out);
    case 3: return expand_coded_values<3, true>(f, plane, dim, begin, end, out);
    case 4: return expand_coded_values<4, true>(f, plane, dim, begin, end, out);
    case 5: return expand_coded_values<5, true>(f, plane, dim, begin, end, out);
    default: return expand_coded_values<8, true>(f, plane, dim, begin, end, out);
  }
}
