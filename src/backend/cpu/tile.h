// How weights lie in memory: tiles of 16 rows (output features), cut along the
// columns (input features) so that one vector holds the same columns of all 16.
//
// A tile of a quantised segment is, plane after plane, each starting on a line:
//   super   f16 [K / 256][16] d, then as much dmin     kSuper* scales only
//   scales  [K / group][16]   f16, bf16, f32, u8 or s8
//   mins    the same shape    has_min only
//   codes   [K / 32] groups of 8 quads of 4 columns; a quad is 16 rows x 4 bytes.
//           nibbles: quad 2i in the low and 2i + 1 in the high halves of 64 bytes
//   high    5-bit codes: 64 bytes a group, bit q of byte (row, column) is the
//           high bit in quad q; 6-bit codes: 128 bytes, bits 2 (q % 4) of half q / 4
// and stands for w = scale * (code - zero) + min.
// A tile of a dense segment is [K][16] f32, f16 or bf16.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/stored.h"

namespace tandem::cpu {

inline constexpr int kTileRows = 16;
inline constexpr int kGroupColumns = 32;

enum class CodePlane : uint8_t { kNibble, kNibble1, kNibble2, kByte };

enum class ScalePlane : uint8_t {
  kF16,
  kBF16,
  kF32,
  kSuperU8,  // f16 d of 256 columns times u8 of 32; min = -(dmin * u8)
  kSuperS8,  // f16 d of 256 columns times s8 of 16
};

// The format of one segment with its plane offsets for K columns.
struct TileFormat {
  bool dense = false;
  DType dense_type = DType::kF32;

  CodePlane codes = CodePlane::kNibble;
  ScalePlane scales = ScalePlane::kF16;
  bool has_min = false;
  int zero = 0;
  int scale_columns = 32;  // columns one scale covers: 16, 32, 64 or 128

  int64_t columns = 0;
  int64_t super_at = 0, scales_at = 0, mins_at = 0, codes_at = 0, high_at = 0;
  int64_t tile_bytes = 0;

  bool halves() const { return scale_columns == 16; }
};

// The tile format of a stored matrix. Throws Error(kUnsupported) for what the
// kernels cannot hold.
TileFormat tile_format(const StoredMatrix& matrix);

// 16 columns x rows... one group of 32 columns of one row, as stored.
struct StoredGroup {
  uint8_t codes[kGroupColumns];
  uint32_t scale[2];  // bits of the scale plane's type; [1] only if halves()
  uint32_t min;
  uint16_t super_scale, super_min;  // f16 bits
};

// Reads group `group` of one row of a quantised matrix.
void read_group(const StoredMatrix& matrix, int64_t row, int64_t group, StoredGroup& out);

// The factors of such a group as floats: w = scale * (code - zero) + min.
struct GroupFactors {
  float scale[2];
  float min;
};
GroupFactors group_factors(const TileFormat& format, const StoredGroup& group);

// Writes rows [16 * tile, 16 * tile + 16) of the matrix into `out`
// [format.tile_bytes], zeroed before. Rows past the last stay zero.
void pack_tile(const StoredMatrix& matrix, const TileFormat& format, int64_t tile, uint8_t* out);

// Expands one row of a tile to floats [columns].
void unpack_row(const TileFormat& format, const uint8_t* tile, int row, float* out);

}  // namespace tandem::cpu
