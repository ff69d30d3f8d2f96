// The body of matmul.h for one instruction set.
//
// Few tokens: codes are unpacked in registers, for up to kFewTokens tokens at
// once, so that a tile is read from memory once and nothing is stored. Many
// tokens: blocks of kBlockColumns columns of two tiles are expanded into the
// first-level cache and then met by kManyTokens tokens at a time.

#include "backend/cpu/kernels/activation_inl.h"

#if defined(TANDEM_SIMD_AVX512)
constexpr int kFewTokens = 4;
constexpr int kManyTokens = 6;
constexpr int kManyTiles = 2;
#else
constexpr int kFewTokens = 3;
constexpr int kManyTokens = 3;
constexpr int kManyTiles = 1;
#endif
constexpr int kSumStride = 2 * kTileRows;

#include "backend/cpu/kernels/matmul_codes_inl.h"
#include "backend/cpu/kernels/matmul_floats_inl.h"

// --- Units -------------------------------------------------------------------

static void finish(const Epilogue& e, F value, int64_t token, int64_t row, int rows) {
  const int64_t at = token * e.stride + row;
  if (e.bias) value = f_add(value, f_load_part(e.bias + row, rows));
  if (e.has_activation) value = f_activate(e.activation, value);
  if (e.residual) {
    value = f_fma(value, f_set(e.scale), f_load_part(e.residual + at, rows));
  } else if (e.scale != 1.0f) {
    value = f_mul(value, f_set(e.scale));
  }
  if (e.softcap != 0) value = f_softcap(value, e.softcap);
  f_store_part(e.out + at, value, rows);
}

static void finish_unit(const MatmulUnit& unit, const Epilogue& e, int64_t token, int64_t count,
                        const float* sums) {
  for (int64_t t = 0; t < count; t++, sums += kSumStride) {
    if (e.gated) {
      F gate = f_load(sums);
      F up = f_load(sums + kTileRows);
      if (e.bias) {
        gate = f_add(gate, f_load_part(e.bias + unit.first_row[0], unit.rows[0]));
        up = f_add(up, f_load_part(e.bias + unit.first_row[1], unit.rows[1]));
      }
      const F value = f_mul(f_activate(e.activation, gate), up);
      f_store_part(e.out + (token + t) * e.stride + unit.first_row[0], value, unit.rows[0]);
      continue;
    }
    for (int n = 0; n < 2; n++) {
      if (unit.rows[n] == 0) continue;
      finish(e, f_load(sums + n * kTileRows), token + t, unit.first_row[n], unit.rows[n]);
    }
  }
}

void matmul(const MatmulArgs& args, int64_t unit_begin, int64_t unit_end, int64_t token_begin,
            int64_t token_end, MatmulScratch& scratch) {
  const int64_t count = token_end - token_begin;
  for (int64_t u = unit_begin; u < unit_end; u++) {
    const MatmulUnit& unit = args.units[u];
    const int tiles = unit.rows[1] > 0 ? 2 : 1;
    memset(scratch.sums, 0, sizeof(float) * static_cast<size_t>(count) * kSumStride);
    if (args.exact || unit.format[0]->dense || (tiles == 2 && unit.format[1]->dense)) {
      float_unit(unit, tiles, args, token_begin, count, scratch);
    } else if (count >= kFewTokensLimit) {
      many_unit(unit, tiles, args, token_begin, count, scratch);
    } else {
      for (int n = 0; n < tiles; n++) {
        few_tile(*unit.format[n], unit.tile[n], args, token_begin, count, scratch,
                 scratch.sums + n * kTileRows);
      }
    }
    finish_unit(unit, args.epilogue, token_begin, count, scratch.sums);
  }
}

#include "backend/cpu/kernels/prompt_inl.h"
