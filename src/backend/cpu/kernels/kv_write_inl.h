// Keys and values into pages, token by token; see kv_codec_inl.h.

#include "backend/cpu/kernels/kv_codec_inl.h"

// Codes of dim elements to a little-endian stream of `bits` bits each.
static void pack_stream(const int32_t* codes, int64_t dim, int bits, uint8_t* out) {
  for (int64_t i = 0; i < dim; i += 8) {
    uint64_t word = 0;
    for (int j = 0; j < 8; j++) word |= static_cast<uint64_t>(codes[i + j]) << (j * bits);
    for (int j = 0; j < bits; j++) *out++ = static_cast<uint8_t>(word >> (8 * j));
  }
}

// The largest of n elements, a multiple of 16, and whether all are numbers.
TANDEM_INLINE bool all_finite(const float* x, int64_t n) {
  I bits = i_zero();
  for (int64_t i = 0; i < n; i += 16) bits = i_max(bits, i_abs_bits(f_load(x + i)));
  return i_max_lane(bits) < 0x7f800000;
}

TANDEM_INLINE I i_code(F x, float highest) {
  return i_round(f_min(f_set(highest), f_max(x, f_zero())));
}

static void encode_affine_group(const float* x, int64_t n, int bits, int32_t* codes,
                                uint16_t& scale, uint16_t& bias) {
  F low = f_load(x);
  F high = low;
  for (int64_t i = 16; i < n; i += 16) {
    low = f_min(low, f_load(x + i));
    high = f_max(high, f_load(x + i));
  }
  const float least = -f_max_lane(f_sub(f_zero(), low));
  const auto highest = static_cast<float>((1 << bits) - 1);
  scale = f32_to_f16((f_max_lane(high) - least) / highest);
  bias = f32_to_f16(least);
  if (!all_finite(x, n)) scale = 0x7e00;
  const float rounded = f16_to_f32(scale);
  const float inverse = rounded > 0 ? 1.0f / rounded : 0.0f;
  for (int64_t i = 0; i < n; i += 16) {
    const F above = f_sub(f_load(x + i), f_set(f16_to_f32(bias)));
    i_store(codes + i, i_code(f_mul(above, f_set(inverse)), highest));
  }
}

template <int kBits>
static void encode_turbo_group(const float* x, const float* borders, int32_t* codes,
                               uint16_t& scale) {
  const F x0 = f_load(x);
  const F x1 = f_load(x + 16);
  const float square = f_sum(f_fma(x0, x0, f_mul(x1, x1)));
  scale = f32_to_f16(__builtin_sqrtf(square / 32.0f));
  const float rounded = f16_to_f32(scale);
  const float inverse = rounded > 0 ? 1.0f / rounded : 0.0f;
  for (int i = 0; i < 32; i += 16) {
    const F y = f_mul(f_load(x + i), f_set(inverse));
    I code = i_zero();
    for (int step = 1 << (kBits - 1); step > 0; step /= 2) {
      const F border = f_lookup<kBits>(borders, i_add(code, i_set(step - 1)));
      const F taken = f_select_less(border, y, f_set(static_cast<float>(step)), f_zero());
      code = i_add(code, i_round(taken));
    }
    i_store(codes + i, code);
  }
}

template <int kBits>
static void encode_turbo(const float* x, int64_t dim, int32_t* codes, uint16_t* scales) {
  for (int64_t g = 0; g < dim / 32; g++) {
    encode_turbo_group<kBits>(x + g * 32, turbo_borders(kBits), codes + g * 32, scales[g]);
  }
}

// Codes, scales and biases of one head's vector; x is turned in place if turbo.
struct Coded {
  int32_t codes[kTurboDimMax];
  uint16_t scales[kTurboDimMax / 32];
  uint16_t biases[kTurboDimMax / 32];
  uint8_t stream[kTurboDimMax];
};

static void encode_vector(const PlaneFormat& f, float* x, int64_t dim, Coded& c) {
  if (f.codec == KvCodec::kAffine) {
    for (int64_t g = 0; g < dim / f.group; g++) {
      encode_affine_group(x + g * f.group, f.group, f.bits, c.codes + g * f.group, c.scales[g],
                          c.biases[g]);
    }
  } else {
    turn(x, dim, turbo_signs().data());
    switch (f.bits) {
      case 2: encode_turbo<2>(x, dim, c.codes, c.scales); break;
      case 3: encode_turbo<3>(x, dim, c.codes, c.scales); break;
      case 4: encode_turbo<4>(x, dim, c.codes, c.scales); break;
      case 5: encode_turbo<5>(x, dim, c.codes, c.scales); break;
      default: encode_turbo<8>(x, dim, c.codes, c.scales); break;
    }
  }
  pack_stream(c.codes, dim, f.bits, c.stream);
}

// Writes x [n] to p[0], p[stride], ... of a dense plane.
static void write_strided(KvCodec codec, void* plane, int64_t at, int64_t stride, const float* x,
                          int64_t n) {
  if (codec == KvCodec::kF32) {
    float* p = static_cast<float*>(plane) + at;
    for (int64_t i = 0; i < n; i++) p[i * stride] = x[i];
    return;
  }
  uint16_t* p = static_cast<uint16_t*>(plane) + at;
  if (codec == KvCodec::kBF16) {
    for (int64_t i = 0; i < n; i++) p[i * stride] = f32_to_bf16(x[i]);
    return;
  }
  for (int64_t i = 0; i < n; i += 16) {
    uint16_t halves[16];
    f_store_f16(halves, f_load_part(x + i, n - i));
    const int64_t lanes = n - i < 16 ? n - i : 16;
    for (int64_t j = 0; j < lanes; j++) p[(i + j) * stride] = halves[j];
  }
}

// One head's key to its slot of a K plane.
static void write_key(const PlaneFormat& f, uint8_t* plane, int64_t slot, float* x, int64_t dim) {
  if (f.group == 0) return write_strided(f.codec, plane, slot, kKeys, x, dim);
  Coded c;
  encode_vector(f, x, dim, c);
  const int64_t bytes = f.code_bytes(dim);
  const int64_t groups = f.groups(dim);
  auto* scales = reinterpret_cast<uint16_t*>(plane + kKeys * bytes);
  for (int64_t i = 0; i < bytes; i++) plane[i * kKeys + slot] = c.stream[i];
  for (int64_t g = 0; g < groups; g++) {
    scales[g * kKeys + slot] = c.scales[g];
    scales[(groups + g) * kKeys + slot] = c.biases[g];
  }
}

// One head's value to its slot of a V plane.
static void write_value(const PlaneFormat& f, uint8_t* plane, int64_t slot, float* x, int64_t dim) {
  if (f.group == 0) return write_strided(f.codec, plane, slot * dim, 1, x, dim);
  Coded c;
  encode_vector(f, x, dim, c);
  const auto bytes = static_cast<size_t>(f.code_bytes(dim));
  const auto groups = static_cast<size_t>(f.groups(dim));
  auto* scales = reinterpret_cast<uint16_t*>(plane + kKeys * bytes);
  memcpy(plane + slot * bytes, c.stream, bytes);
  memcpy(scales + slot * groups, c.scales, groups * 2);
  if (f.codec == KvCodec::kAffine) {
    memcpy(scales + (kKeys + slot) * groups, c.biases, groups * 2);
  }
}
