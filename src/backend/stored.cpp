#include "backend/stored.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace tandem {

int64_t dtype_bytes(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16 ? 2 : 4; }

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kI32: return "i32";
    case DType::kU32: return "u32";
  }
  return "?";
}

namespace {

struct FormatFacts {
  const char* name;
  int64_t columns;
  int64_t bytes;
};

// Indexed by WeightFormat. Block layouts: the GGUF format's ggml types.
constexpr FormatFacts kFormats[] = {
    {"f32", 1, 4},    {"f16", 1, 2},      {"bf16", 1, 2},     {"affine", 0, 0},
    {"q4_0", 32, 18}, {"q4_1", 32, 20},   {"q5_0", 32, 22},   {"q5_1", 32, 24},
    {"q8_0", 32, 34}, {"q4_k", 256, 144}, {"q5_k", 256, 176}, {"q6_k", 256, 210},
};

const FormatFacts& facts(WeightFormat format) { return kFormats[static_cast<int>(format)]; }

uint16_t load_u16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint32_t load_u32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

float load_f16(const uint8_t* p) { return f16_to_f32(load_u16(p)); }

// Q4_0: f16 scale, 32 nibbles (low halves first), w = d * (q - 8).
void q4_0_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 16; ++i) {
    const int byte = block[2 + i];
    out[i] = d * static_cast<float>((byte & 15) - 8);
    out[i + 16] = d * static_cast<float>((byte >> 4) - 8);
  }
}

// Q4_1: f16 scale, f16 minimum, w = d * q + m.
void q4_1_block(const uint8_t* block, float* out) {
  const float d = load_f16(block), m = load_f16(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int byte = block[4 + i];
    out[i] = d * static_cast<float>(byte & 15) + m;
    out[i + 16] = d * static_cast<float>(byte >> 4) + m;
  }
}

// The fifth bits of Q5_0 and Q5_1 lie in one u32, bit i for element i.
int fifth_bit(uint32_t high, int i) { return static_cast<int>(high >> i & 1) << 4; }

void q5_0_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint32_t high = load_u32(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int byte = block[6 + i];
    out[i] = d * static_cast<float>(((byte & 15) | fifth_bit(high, i)) - 16);
    out[i + 16] = d * static_cast<float>(((byte >> 4) | fifth_bit(high, i + 16)) - 16);
  }
}

void q5_1_block(const uint8_t* block, float* out) {
  const float d = load_f16(block), m = load_f16(block + 2);
  const uint32_t high = load_u32(block + 4);
  for (int i = 0; i < 16; ++i) {
    const int byte = block[8 + i];
    out[i] = d * static_cast<float>((byte & 15) | fifth_bit(high, i)) + m;
    out[i + 16] = d * static_cast<float>((byte >> 4) | fifth_bit(high, i + 16)) + m;
  }
}

void q8_0_block(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

}  // namespace

KScaleMin k_scale_min(const uint8_t* packed, int sub_block) {
  const int j = sub_block;
  if (j < 4)
    return {static_cast<uint8_t>(packed[j] & 63), static_cast<uint8_t>(packed[j + 4] & 63)};
  const int low = packed[j + 4];
  return {static_cast<uint8_t>((low & 15) | (packed[j - 4] >> 6 << 4)),
          static_cast<uint8_t>((low >> 4) | (packed[j] >> 6 << 4))};
}

namespace {

// Q4_K: f16 d and dmin, 12 bytes of 6-bit scales and minima, then 8 sub-blocks
// of 32; each 32 bytes hold two of them, low nibbles first. w = d*s*q - dmin*m.
void q4_k_block(const uint8_t* block, float* out) {
  const float d = load_f16(block), dmin = load_f16(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const KScaleMin sm = k_scale_min(block + 4, sub);
    const float scale = d * sm.scale, minimum = dmin * sm.minimum;
    const uint8_t* codes = block + 16 + sub / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int q = sub % 2 == 0 ? codes[i] & 15 : codes[i] >> 4;
      out[sub * 32 + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Q5_K: as Q4_K with a plane of fifth bits before the nibbles: bit `sub` of
// byte i belongs to element i of the sub-block.
void q5_k_block(const uint8_t* block, float* out) {
  const float d = load_f16(block), dmin = load_f16(block + 2);
  const uint8_t* high = block + 16;
  for (int sub = 0; sub < 8; ++sub) {
    const KScaleMin sm = k_scale_min(block + 4, sub);
    const float scale = d * sm.scale, minimum = dmin * sm.minimum;
    const uint8_t* codes = block + 48 + sub / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int q = (sub % 2 == 0 ? codes[i] & 15 : codes[i] >> 4) | (high[i] >> sub & 1) << 4;
      out[sub * 32 + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Q6_K: 128 bytes of low nibbles, 64 of high pairs, 16 i8 scales (one for 16
// elements), f16 d. Two halves of 128 elements, four runs of 32 in each.
void q6_k_block(const uint8_t* block, float* out) {
  const float d = load_f16(block + 208);
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, run = e % 128 / 32, i = e % 32;
    const int low_byte = block[half * 64 + run % 2 * 32 + i];
    const int low = run < 2 ? low_byte & 15 : low_byte >> 4;
    const int high = block[128 + half * 32 + i] >> (2 * run) & 3;
    const float scale = d * static_cast<float>(scales[e / 16]);
    out[e] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

// Codes of MLX's affine layout are one little-endian bit stream a row.
uint32_t affine_code(const uint8_t* row, int64_t index, int bits) {
  const int64_t bit = index * bits;
  const int shift = static_cast<int>(bit % 8);
  uint32_t word = row[bit / 8];
  if (shift + bits > 8) word |= static_cast<uint32_t>(row[bit / 8 + 1]) << 8;
  return word >> shift & ((1u << bits) - 1);
}

float load_scale(const std::byte* plane, int64_t index, DType type) {
  const auto* p = reinterpret_cast<const uint8_t*>(plane) + index * dtype_bytes(type);
  if (type == DType::kF16) return load_f16(p);
  if (type == DType::kBF16) return bf16_to_f32(load_u16(p));
  return std::bit_cast<float>(load_u32(p));
}

void affine_row(const StoredMatrix& m, int64_t stored, float* out) {
  const auto* codes =
      reinterpret_cast<const uint8_t*>(m.data.data()) + stored * (m.cols * m.bits / 8);
  const int64_t groups = m.cols / m.group_size;
  for (int64_t c = 0; c < m.cols; ++c) {
    const int64_t g = stored * groups + c / m.group_size;
    const float scale = load_scale(m.scales.data(), g, m.scale_type);
    const float bias = load_scale(m.biases.data(), g, m.scale_type);
    out[c] = scale * static_cast<float>(affine_code(codes, c, m.bits)) + bias;
  }
}

void dense_row(const StoredMatrix& m, int64_t stored, float* out) {
  const DType type = m.format == WeightFormat::kF32   ? DType::kF32
                     : m.format == WeightFormat::kF16 ? DType::kF16
                                                      : DType::kBF16;
  for (int64_t c = 0; c < m.cols; ++c)
    out[c] = load_scale(m.data.data(), stored * m.cols + c, type);
}

using BlockFunction = void (*)(const uint8_t*, float*);

BlockFunction block_function(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0: return q4_0_block;
    case WeightFormat::kQ4_1: return q4_1_block;
    case WeightFormat::kQ5_0: return q5_0_block;
    case WeightFormat::kQ5_1: return q5_1_block;
    case WeightFormat::kQ8_0: return q8_0_block;
    case WeightFormat::kQ4_K: return q4_k_block;
    case WeightFormat::kQ5_K: return q5_k_block;
    case WeightFormat::kQ6_K: return q6_k_block;
    default: INVARIANT(false); return nullptr;
  }
}

}  // namespace

const char* weight_format_name(WeightFormat format) { return facts(format).name; }
int64_t block_columns(WeightFormat format) { return facts(format).columns; }
int64_t block_bytes(WeightFormat format) { return facts(format).bytes; }

void dequantize_row(const StoredMatrix& m, int64_t row, float* out) {
  INVARIANT(row >= 0 && row < m.rows);
  const int64_t stored = m.stored_row(row);
  if (m.format == WeightFormat::kAffine) return affine_row(m, stored, out);
  if (block_columns(m.format) == 1) return dense_row(m, stored, out);
  const BlockFunction expand = block_function(m.format);
  const int64_t blocks = m.cols / block_columns(m.format);
  const auto* block =
      reinterpret_cast<const uint8_t*>(m.data.data()) + stored * blocks * block_bytes(m.format);
  for (int64_t b = 0; b < blocks; ++b) {
    expand(block + b * block_bytes(m.format), out + b * block_columns(m.format));
  }
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t mantissa = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) {  // subnormal: the unit is 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace tandem
