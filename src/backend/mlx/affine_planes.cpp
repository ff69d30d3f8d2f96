#include "backend/mlx/affine_planes.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace tandem::mlx_backend {
namespace {

constexpr int kGroup = 32;

// One group of 32 columns before it is packed.
struct Group {
  uint8_t codes[kGroup];
  float scale;
  float bias;
};

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

float load_float(const std::byte* plane, int64_t index, DType type) {
  const auto* p = reinterpret_cast<const uint8_t*>(plane) + index * dtype_bytes(type);
  if (type == DType::kF16) return load_f16(p);
  if (type == DType::kBF16) return bf16_to_f32(load_u16(p));
  return std::bit_cast<float>(load_u32(p));
}

// Low nibbles are elements 0 to 15, high nibbles 16 to 31.
void split_nibbles(const uint8_t* bytes, Group& g) {
  for (int i = 0; i < 16; ++i) {
    g.codes[i] = bytes[i] & 15;
    g.codes[i + 16] = bytes[i] >> 4;
  }
}

void add_fifth_bits(uint32_t high, Group& g) {
  for (int i = 0; i < kGroup; ++i) g.codes[i] |= (high >> i & 1) << 4;
}

// A block of 32 columns is one group.
void small_block(WeightFormat format, const uint8_t* block, Group& g) {
  g.scale = load_f16(block);
  switch (format) {
    case WeightFormat::kQ4_0:
      split_nibbles(block + 2, g);
      g.bias = -8.0f * g.scale;
      return;
    case WeightFormat::kQ4_1:
      split_nibbles(block + 4, g);
      g.bias = load_f16(block + 2);
      return;
    case WeightFormat::kQ5_0:
      split_nibbles(block + 6, g);
      add_fifth_bits(load_u32(block + 2), g);
      g.bias = -16.0f * g.scale;
      return;
    case WeightFormat::kQ5_1:
      split_nibbles(block + 8, g);
      add_fifth_bits(load_u32(block + 4), g);
      g.bias = load_f16(block + 2);
      return;
    case WeightFormat::kQ8_0:
      for (int i = 0; i < kGroup; ++i) g.codes[i] = block[2 + i] ^ 0x80;  // q + 128
      g.bias = -128.0f * g.scale;
      return;
    default: INVARIANT(false);
  }
}

// Sub-block `sub` of a Q4_K or Q5_K block is one group.
void k_sub_block(WeightFormat format, const uint8_t* block, int sub, Group& g) {
  const KScaleMin sm = k_scale_min(block + 4, sub);
  g.scale = load_f16(block) * sm.scale;
  g.bias = -(load_f16(block + 2) * sm.minimum);
  const bool five = format == WeightFormat::kQ5_K;
  const uint8_t* codes = block + (five ? 48 : 16) + sub / 2 * 32;
  for (int i = 0; i < kGroup; ++i) {
    g.codes[i] = sub % 2 == 0 ? codes[i] & 15 : codes[i] >> 4;
    if (five) g.codes[i] |= (block[16 + i] >> sub & 1) << 4;
  }
}

// 32 codes of any width fill whole words.
void pack(const Group& g, int bits, uint32_t* words) {
  uint64_t pending = 0;
  int filled = 0;
  for (int i = 0; i < kGroup; ++i) {
    pending |= static_cast<uint64_t>(g.codes[i]) << filled;
    filled += bits;
    if (filled >= 32) {
      *words++ = static_cast<uint32_t>(pending);
      pending >>= 32;
      filled -= 32;
    }
  }
}

void append_block_row(const StoredMatrix& m, int64_t stored, int64_t out_row, AffinePlanes& out) {
  const int64_t groups_per_block = block_columns(m.format) / kGroup;
  const int64_t groups = m.cols / kGroup;
  const auto* row = reinterpret_cast<const uint8_t*>(m.data.data()) +
                    stored * (m.cols / block_columns(m.format)) * block_bytes(m.format);
  Group g;
  for (int64_t i = 0; i < groups; ++i) {
    const uint8_t* block = row + i / groups_per_block * block_bytes(m.format);
    if (groups_per_block == 1) {
      small_block(m.format, block, g);
    } else {
      k_sub_block(m.format, block, static_cast<int>(i % groups_per_block), g);
    }
    const int64_t at = out_row * groups + i;
    pack(g, out.bits, &out.codes[at * out.bits]);
    out.scales[at] = g.scale;
    out.biases[at] = g.bias;
  }
}

void append_affine_row(const StoredMatrix& m, int64_t stored, int64_t out_row, AffinePlanes& out) {
  const int64_t words = m.cols * m.bits / 32;
  std::memcpy(&out.codes[out_row * words], m.data.data() + stored * words * 4, words * 4);
  const int64_t groups = m.cols / m.group_size;
  for (int64_t i = 0; i < groups; ++i) {
    out.scales[out_row * groups + i] =
        load_float(m.scales.data(), stored * groups + i, m.scale_type);
    out.biases[out_row * groups + i] =
        load_float(m.biases.data(), stored * groups + i, m.scale_type);
  }
}

}  // namespace

bool has_affine_form(const StoredMatrix& m) {
  switch (m.format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
    case WeightFormat::kQ6_K: return false;
    case WeightFormat::kAffine:
      return (m.group_size == 32 || m.group_size == 64 || m.group_size == 128) &&
             (m.cols * m.bits) % 32 == 0;
    default: return true;
  }
}

int affine_bits(const StoredMatrix& m) {
  switch (m.format) {
    case WeightFormat::kAffine: return m.bits;
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ4_K: return 4;
    case WeightFormat::kQ5_0:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ5_K: return 5;
    case WeightFormat::kQ8_0: return 8;
    default: INVARIANT(false); return 0;
  }
}

int affine_group_size(const StoredMatrix& m) {
  return m.format == WeightFormat::kAffine ? m.group_size : kGroup;
}

void append_rows(const StoredMatrix& m, AffinePlanes& planes) {
  INVARIANT(has_affine_form(m) && planes.bits == affine_bits(m) &&
            planes.group_size == affine_group_size(m) && planes.cols == m.cols);
  const int64_t first = planes.rows;
  planes.rows += m.rows;
  planes.codes.resize(planes.rows * (m.cols * planes.bits / 32));
  planes.scales.resize(planes.rows * (m.cols / planes.group_size));
  planes.biases.resize(planes.scales.size());
  for (int64_t row = 0; row < m.rows; ++row) {
    if (m.format == WeightFormat::kAffine) {
      append_affine_row(m, m.stored_row(row), first + row, planes);
    } else {
      append_block_row(m, m.stored_row(row), first + row, planes);
    }
  }
}

}  // namespace tandem::mlx_backend
