#include "backend/cpu/tile.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/memory.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

constexpr int kSuperColumns = 256;

template <class T>
T load_as(const void* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

const uint8_t* bytes_of(std::span<const std::byte> data) {
  return reinterpret_cast<const uint8_t*>(data.data());
}

void set_codes(TileFormat& format, int bits) {
  switch (bits) {
    case 5: format.codes = CodePlane::kNibble1; break;
    case 6: format.codes = CodePlane::kNibble2; break;
    case 8: format.codes = CodePlane::kByte; break;
    default: format.codes = CodePlane::kNibble;
  }
}

void set_affine(TileFormat& format, const StoredMatrix& matrix) {
  const int bits = matrix.bits;
  const int group = matrix.group_size;
  const bool bits_ok = bits == 2 || bits == 3 || bits == 4 || bits == 5 || bits == 6 || bits == 8;
  if (!bits_ok || (group != 32 && group != 64 && group != 128)) {
    throw Error(ErrorCode::kUnsupported,
                "[load] '" + matrix.name + "' is affine with " + std::to_string(bits) +
                    " bits and groups of " + std::to_string(group) +
                    "; the cpu backend has 2, 3, 4, 5, 6 or 8 bits and groups of 32, 64 or 128");
  }
  set_codes(format, bits);
  format.has_min = true;
  format.scale_columns = group;
  switch (matrix.scale_type) {
    case DType::kF16: format.scales = ScalePlane::kF16; break;
    case DType::kBF16: format.scales = ScalePlane::kBF16; break;
    case DType::kF32: format.scales = ScalePlane::kF32; break;
    default:
      throw Error(ErrorCode::kUnsupported, "[load] '" + matrix.name + "' has scales of type " +
                                               dtype_name(matrix.scale_type) +
                                               "; expected f16, bf16 or f32");
  }
}

void set_quantised(TileFormat& format, const StoredMatrix& matrix) {
  const auto set = [&](int bits, ScalePlane scales, bool has_min, int zero) {
    set_codes(format, bits);
    format.scales = scales;
    format.has_min = has_min;
    format.zero = zero;
  };
  switch (matrix.format) {
    case WeightFormat::kQ4_0: return set(4, ScalePlane::kF16, false, 8);
    case WeightFormat::kQ4_1: return set(4, ScalePlane::kF16, true, 0);
    case WeightFormat::kQ5_0: return set(5, ScalePlane::kF16, false, 16);
    case WeightFormat::kQ5_1: return set(5, ScalePlane::kF16, true, 0);
    case WeightFormat::kQ8_0: return set(8, ScalePlane::kF16, false, 128);
    case WeightFormat::kQ4_K: return set(4, ScalePlane::kSuperU8, true, 0);
    case WeightFormat::kQ5_K: return set(5, ScalePlane::kSuperU8, true, 0);
    case WeightFormat::kQ6_K:
      set(6, ScalePlane::kSuperS8, false, 32);
      format.scale_columns = 16;
      return;
    case WeightFormat::kAffine: return set_affine(format, matrix);
    default: INVARIANT(false);
  }
}

int scale_bytes(ScalePlane scales) {
  switch (scales) {
    case ScalePlane::kF32: return 4;
    case ScalePlane::kF16:
    case ScalePlane::kBF16: return 2;
    case ScalePlane::kSuperU8:
    case ScalePlane::kSuperS8: return 1;
  }
  return 0;
}

bool is_super(ScalePlane scales) {
  return scales == ScalePlane::kSuperU8 || scales == ScalePlane::kSuperS8;
}

int64_t code_bytes_per_group(CodePlane codes) { return codes == CodePlane::kByte ? 512 : 256; }

int64_t high_bytes_per_group(CodePlane codes) {
  return codes == CodePlane::kNibble1 ? 64 : codes == CodePlane::kNibble2 ? 128 : 0;
}

void lay_out(TileFormat& format) {
  const int64_t k = format.columns;
  int64_t at = 0;
  const auto plane = [&](int64_t& offset, int64_t bytes) {
    offset = at;
    at = round_up(at + bytes, kLineBytes);
  };
  const int64_t scales = k / format.scale_columns * kTileRows * scale_bytes(format.scales);
  if (is_super(format.scales)) {
    plane(format.super_at, k / kSuperColumns * kTileRows * 2 * (format.has_min ? 2 : 1));
  }
  plane(format.scales_at, scales);
  if (format.has_min) plane(format.mins_at, scales);
  plane(format.codes_at, k / kGroupColumns * code_bytes_per_group(format.codes));
  plane(format.high_at, k / kGroupColumns * high_bytes_per_group(format.codes));
  format.tile_bytes = at;
}

// --- Reading stored groups ---------------------------------------------------

void low_nibbles(const uint8_t* bytes, int count, uint8_t* codes) {
  for (int i = 0; i < count; i++) codes[i] = bytes[i] & 15;
}

void high_nibbles(const uint8_t* bytes, int count, uint8_t* codes) {
  for (int i = 0; i < count; i++) codes[i] = bytes[i] >> 4;
}

void read_small_block(const StoredMatrix& matrix, const uint8_t* block, StoredGroup& out) {
  const bool five = matrix.format == WeightFormat::kQ5_0 || matrix.format == WeightFormat::kQ5_1;
  const bool min = matrix.format == WeightFormat::kQ4_1 || matrix.format == WeightFormat::kQ5_1;
  out.scale[0] = load_as<uint16_t>(block);
  block += 2;
  if (min) {
    out.min = load_as<uint16_t>(block);
    block += 2;
  }
  if (matrix.format == WeightFormat::kQ8_0) {
    for (int i = 0; i < 32; i++) out.codes[i] = block[i] ^ 0x80;
    return;
  }
  uint32_t fifth = 0;
  if (five) {
    fifth = load_as<uint32_t>(block);
    block += 4;
  }
  low_nibbles(block, 16, out.codes);
  high_nibbles(block, 16, out.codes + 16);
  for (int i = 0; i < 32; i++) out.codes[i] |= static_cast<uint8_t>((fifth >> i & 1) << 4);
}

// Q4_K and Q5_K: eight 6-bit scales and mins in 12 bytes.
void read_k_scales(const uint8_t* packed, int group, StoredGroup& out) {
  if (group < 4) {
    out.scale[0] = packed[group] & 63;
    out.min = packed[group + 4] & 63;
    return;
  }
  out.scale[0] = (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4;
  out.min = (packed[group + 4] >> 4) | (packed[group] >> 6) << 4;
}

void read_k_block(const StoredMatrix& matrix, const uint8_t* block, int group, StoredGroup& out) {
  const bool five = matrix.format == WeightFormat::kQ5_K;
  out.super_scale = load_as<uint16_t>(block);
  out.super_min = load_as<uint16_t>(block + 2);
  read_k_scales(block + 4, group, out);
  const uint8_t* fifth = block + 16;
  const uint8_t* nibbles = block + (five ? 48 : 16) + group / 2 * 32;
  if (group % 2 == 0) {
    low_nibbles(nibbles, 32, out.codes);
  } else {
    high_nibbles(nibbles, 32, out.codes);
  }
  if (!five) return;
  for (int i = 0; i < 32; i++) out.codes[i] |= static_cast<uint8_t>((fifth[i] >> group & 1) << 4);
}

void read_q6_block(const uint8_t* block, int group, StoredGroup& out) {
  const int half = group / 4;
  const int part = group % 4;
  const uint8_t* low = block + half * 64 + part % 2 * 32;
  const uint8_t* high = block + 128 + half * 32;
  const uint8_t* scales = block + 192 + group * 2;
  if (part < 2) {
    low_nibbles(low, 32, out.codes);
  } else {
    high_nibbles(low, 32, out.codes);
  }
  for (int i = 0; i < 32; i++) {
    out.codes[i] |= static_cast<uint8_t>((high[i] >> (2 * part) & 3) << 4);
  }
  out.scale[0] = scales[0];
  out.scale[1] = scales[1];
  out.super_scale = load_as<uint16_t>(block + 208);
}

uint32_t read_scale(const uint8_t* plane, int64_t index, DType type) {
  return type == DType::kF32 ? load_as<uint32_t>(plane + index * 4)
                             : load_as<uint16_t>(plane + index * 2);
}

void read_affine(const StoredMatrix& matrix, int64_t row, int64_t group, StoredGroup& out) {
  const int64_t column = group * kGroupColumns;
  const int64_t row_bytes = matrix.cols * matrix.bits / 8;
  // 32 codes of b bits are 4 b bytes, so a group always starts on a byte.
  const uint8_t* codes = bytes_of(matrix.data) + row * row_bytes + column * matrix.bits / 8;
  const int mask = (1 << matrix.bits) - 1;
  for (int i = 0; i < kGroupColumns; i++) {
    const int bit = i * matrix.bits;
    int value = codes[bit / 8] >> (bit % 8);
    if (bit % 8 + matrix.bits > 8) value |= codes[bit / 8 + 1] << (8 - bit % 8);
    out.codes[i] = static_cast<uint8_t>(value & mask);
  }
  const int64_t index = row * (matrix.cols / matrix.group_size) + column / matrix.group_size;
  out.scale[0] = read_scale(bytes_of(matrix.scales), index, matrix.scale_type);
  out.min = read_scale(bytes_of(matrix.biases), index, matrix.scale_type);
}

float plane_float(ScalePlane plane, uint32_t bits) {
  switch (plane) {
    case ScalePlane::kF16: return f16_to_f32(static_cast<uint16_t>(bits));
    case ScalePlane::kBF16: return bf16_to_f32(static_cast<uint16_t>(bits));
    case ScalePlane::kF32: return load_as<float>(&bits);
    case ScalePlane::kSuperU8: return static_cast<float>(bits);
    case ScalePlane::kSuperS8: return static_cast<float>(static_cast<int8_t>(bits));
  }
  return 0;
}

// --- Packing -----------------------------------------------------------------

void put_codes(const TileFormat& format, const StoredGroup& group, int64_t g, int row,
               uint8_t* tile) {
  uint8_t* codes = tile + format.codes_at + g * code_bytes_per_group(format.codes);
  uint8_t* high = tile + format.high_at + g * high_bytes_per_group(format.codes);
  for (int i = 0; i < kGroupColumns; i++) {
    const int quad = i / 4;
    const int lane = row * 4 + i % 4;
    const uint8_t code = group.codes[i];
    if (format.codes == CodePlane::kByte) {
      codes[quad * 64 + lane] = code;
      continue;
    }
    codes[quad / 2 * 64 + lane] |= static_cast<uint8_t>((code & 15) << (quad % 2 * 4));
    if (format.codes == CodePlane::kNibble1) {
      high[lane] |= static_cast<uint8_t>((code >> 4) << quad);
    } else if (format.codes == CodePlane::kNibble2) {
      high[quad / 4 * 64 + lane] |= static_cast<uint8_t>((code >> 4) << (quad % 4 * 2));
    }
  }
}

void put_scale(const TileFormat& format, int64_t plane_at, int64_t index, uint32_t bits,
               uint8_t* tile) {
  const int bytes = scale_bytes(format.scales);
  std::memcpy(tile + plane_at + index * bytes, &bits, bytes);
}

void put_factors(const TileFormat& format, const StoredGroup& group, int64_t g, int row,
                 uint8_t* tile) {
  if (format.halves()) {
    put_scale(format, format.scales_at, (2 * g) * kTileRows + row, group.scale[0], tile);
    put_scale(format, format.scales_at, (2 * g + 1) * kTileRows + row, group.scale[1], tile);
  } else {
    const int64_t index = g * kGroupColumns / format.scale_columns * kTileRows + row;
    put_scale(format, format.scales_at, index, group.scale[0], tile);
    if (format.has_min) put_scale(format, format.mins_at, index, group.min, tile);
  }
  if (!is_super(format.scales)) return;
  const int64_t supers = format.columns / kSuperColumns;
  const int64_t index = g * kGroupColumns / kSuperColumns * kTileRows + row;
  uint8_t* plane = tile + format.super_at;
  std::memcpy(plane + index * 2, &group.super_scale, 2);
  if (format.has_min) std::memcpy(plane + (supers * kTileRows + index) * 2, &group.super_min, 2);
}

void check_columns(const StoredMatrix& matrix, int64_t multiple) {
  if (matrix.cols % multiple == 0) return;
  throw Error(ErrorCode::kUnsupported,
              "[load] '" + matrix.name + "' (" + weight_format_name(matrix.format) + ") has " +
                  std::to_string(matrix.cols) + " columns; expected a multiple of " +
                  std::to_string(multiple));
}

int64_t dense_bytes(DType type) { return dtype_bytes(type); }

}  // namespace

TileFormat tile_format(const StoredMatrix& matrix) {
  TileFormat format;
  format.columns = matrix.cols;
  switch (matrix.format) {
    case WeightFormat::kF32: format.dense_type = DType::kF32; break;
    case WeightFormat::kF16: format.dense_type = DType::kF16; break;
    case WeightFormat::kBF16: format.dense_type = DType::kBF16; break;
    default:
      set_quantised(format, matrix);
      check_columns(matrix, matrix.format == WeightFormat::kAffine ? matrix.group_size
                                                                   : block_columns(matrix.format));
      lay_out(format);
      return format;
  }
  format.dense = true;
  format.tile_bytes =
      round_up(matrix.cols * kTileRows * dense_bytes(format.dense_type), kLineBytes);
  return format;
}

void read_group(const StoredMatrix& matrix, int64_t row, int64_t group, StoredGroup& out) {
  const int64_t stored = matrix.stored_row(row);
  if (matrix.format == WeightFormat::kAffine) return read_affine(matrix, stored, group, out);
  const int64_t columns = block_columns(matrix.format);
  const int64_t groups = columns / kGroupColumns;  // of one block
  const int64_t block = stored * (matrix.cols / columns) + group / groups;
  const uint8_t* data = bytes_of(matrix.data) + block * block_bytes(matrix.format);
  const int within = static_cast<int>(group % groups);
  switch (matrix.format) {
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K: return read_k_block(matrix, data, within, out);
    case WeightFormat::kQ6_K: return read_q6_block(data, within, out);
    default: return read_small_block(matrix, data, out);
  }
}

GroupFactors group_factors(const TileFormat& format, const StoredGroup& group) {
  GroupFactors factors{};
  const int scales = format.halves() ? 2 : 1;
  for (int i = 0; i < scales; i++) {
    factors.scale[i] = plane_float(format.scales, group.scale[i]);
    if (is_super(format.scales)) factors.scale[i] *= f16_to_f32(group.super_scale);
  }
  if (!format.has_min) return factors;
  factors.min = plane_float(format.scales, group.min);
  if (is_super(format.scales)) factors.min *= -f16_to_f32(group.super_min);
  return factors;
}

void pack_tile(const StoredMatrix& matrix, const TileFormat& format, int64_t tile, uint8_t* out) {
  const int64_t first = tile * kTileRows;
  const int64_t rows = std::min<int64_t>(kTileRows, matrix.rows - first);
  if (format.dense) {
    const int64_t bytes = dense_bytes(format.dense_type);
    for (int64_t row = 0; row < rows; row++) {
      const uint8_t* from =
          bytes_of(matrix.data) + matrix.stored_row(first + row) * matrix.cols * bytes;
      for (int64_t k = 0; k < matrix.cols; k++) {
        std::memcpy(out + (k * kTileRows + row) * bytes, from + k * bytes, bytes);
      }
    }
    return;
  }
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t g = 0; g < matrix.cols / kGroupColumns; g++) {
      StoredGroup group;
      read_group(matrix, first + row, g, group);
      put_codes(format, group, g, static_cast<int>(row), out);
      put_factors(format, group, g, static_cast<int>(row), out);
    }
  }
}

namespace {

uint32_t get_scale(const TileFormat& format, int64_t plane_at, int64_t index, const uint8_t* tile) {
  const int bytes = scale_bytes(format.scales);
  uint32_t bits = 0;
  std::memcpy(&bits, tile + plane_at + index * bytes, bytes);
  return bits;
}

// The inverse of put_codes and put_factors.
void get_group(const TileFormat& format, const uint8_t* tile, int64_t g, int row,
               StoredGroup& group) {
  const uint8_t* codes = tile + format.codes_at + g * code_bytes_per_group(format.codes);
  const uint8_t* high = tile + format.high_at + g * high_bytes_per_group(format.codes);
  for (int i = 0; i < kGroupColumns; i++) {
    const int quad = i / 4;
    const int lane = row * 4 + i % 4;
    if (format.codes == CodePlane::kByte) {
      group.codes[i] = codes[quad * 64 + lane];
      continue;
    }
    int code = codes[quad / 2 * 64 + lane] >> (quad % 2 * 4) & 15;
    if (format.codes == CodePlane::kNibble1) {
      code |= (high[lane] >> quad & 1) << 4;
    } else if (format.codes == CodePlane::kNibble2) {
      code |= (high[quad / 4 * 64 + lane] >> (quad % 4 * 2) & 3) << 4;
    }
    group.codes[i] = static_cast<uint8_t>(code);
  }
  const int64_t per_group = format.halves() ? 2 : 1;
  for (int64_t i = 0; i < per_group; i++) {
    const int64_t scale = format.halves() ? 2 * g + i : g * kGroupColumns / format.scale_columns;
    group.scale[i] = get_scale(format, format.scales_at, scale * kTileRows + row, tile);
    if (format.has_min) {
      group.min = get_scale(format, format.mins_at, scale * kTileRows + row, tile);
    }
  }
  if (!is_super(format.scales)) return;
  const int64_t supers = format.columns / kSuperColumns;
  const int64_t index = g * kGroupColumns / kSuperColumns * kTileRows + row;
  const uint8_t* plane = tile + format.super_at;
  group.super_scale = load_as<uint16_t>(plane + index * 2);
  if (format.has_min) {
    group.super_min = load_as<uint16_t>(plane + (supers * kTileRows + index) * 2);
  }
}

}  // namespace

void unpack_row(const TileFormat& format, const uint8_t* tile, int row, float* out) {
  if (format.dense) {
    const int64_t bytes = dense_bytes(format.dense_type);
    for (int64_t k = 0; k < format.columns; k++) {
      const uint8_t* p = tile + (k * kTileRows + row) * bytes;
      out[k] = format.dense_type == DType::kF32   ? load_as<float>(p)
               : format.dense_type == DType::kF16 ? f16_to_f32(load_as<uint16_t>(p))
                                                  : bf16_to_f32(load_as<uint16_t>(p));
    }
    return;
  }
  for (int64_t g = 0; g < format.columns / kGroupColumns; g++) {
    StoredGroup group{};
    get_group(format, tile, g, row, group);
    const GroupFactors factors = group_factors(format, group);
    for (int i = 0; i < kGroupColumns; i++) {
      const float scale = factors.scale[format.halves() ? i / 16 : 0];
      const float code = static_cast<float>(group.codes[i] - format.zero);
      out[g * kGroupColumns + i] = std::fma(scale, code, factors.min);
    }
  }
}

}  // namespace tandem::cpu
