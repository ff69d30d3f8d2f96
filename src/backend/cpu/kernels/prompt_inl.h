// The body of prompt.h for one instruction set, over tile registers that are the
// machine's or emulated.
//
// Two tiles of weights and two of tokens make four sums, so that each register is
// loaded once for two products. The depth is cut so that the weights stay in the
// first-level cache; the tokens stream past them from the second.

#include "backend/cpu/kernels/tiles_inl.h"

// --- Activations -------------------------------------------------------------

// Tokens of one block.
TANDEM_INLINE int64_t block_count(int64_t count, int64_t block) {
  const int64_t left = count - block * kPromptBlock;
  return left < kPromptBlock ? left : kPromptBlock;
}

void prompt_to_tiles(const PromptRowsArgs& a, int64_t begin, int64_t end) {
  const int64_t groups = (a.columns + kGroupColumns - 1) / kGroupColumns;
  for (int64_t block = begin; block < end; block++) {
    const int64_t count = block_count(a.count, block);
    for (int64_t t = 0; t < kPromptBlock; t++) {
      uint16_t* out = a.out + (block * groups * kPromptBlock + t) * kGroupColumns;
      const float* x = t < count ? a.x + a.rows[block * kPromptBlock + t] * a.columns : nullptr;
      for (int64_t k = 0; k < groups * kGroupColumns; k += 32, out += kPromptBlock * 32) {
        for (int half = 0; half < 32; half += 16) {
          const int64_t left = a.columns - k - half;
          store_bf16(out + half, x && left > 0 ? f_load_part(x + k + half, left) : f_zero());
        }
      }
    }
  }
}

// --- Weights -----------------------------------------------------------------

template <CodePlane kCodes, int kQuad>
TANDEM_INLINE void expand_prompt_quad(GroupCodes codes, F scale, F min, uint16_t* out) {
  const U quad = load_quad<kCodes, kQuad>(codes);
  store_bf16_pairs(out + kQuad * 64, f_fma(scale, column_of<0>(quad), min),
                   f_fma(scale, column_of<1>(quad), min));
  store_bf16_pairs(out + kQuad * 64 + 32, f_fma(scale, column_of<2>(quad), min),
                   f_fma(scale, column_of<3>(quad), min));
}

// Groups [begin, end) of a quantised tile. A zero point is a power of two, so that
// fma(scale, code, -zero * scale) is fma(scale, code - zero, 0).
template <CodePlane kCodes>
static void expand_prompt_codes(const TileFormat& f, const uint8_t* tile, int64_t begin,
                                int64_t end, PromptScratch& scratch, uint16_t* out) {
  expand_scales(f, tile, begin, end, scratch.scales, scratch.mins);
  const F minus_zero = f_set(static_cast<float>(-f.zero));
  const float* scales = scratch.scales;
  for (int64_t g = begin; g < end; g++, out += kGroupColumns * kTileRows) {
    const GroupCodes codes = group_codes<kCodes>(f, tile, g);
    F scale = f_load(scales);
    F min = f.has_min ? f_load(scratch.mins + (g - begin) * kTileRows) : f_mul(minus_zero, scale);
    scales += kTileRows;
    expand_prompt_quad<kCodes, 0>(codes, scale, min, out);
    expand_prompt_quad<kCodes, 1>(codes, scale, min, out);
    expand_prompt_quad<kCodes, 2>(codes, scale, min, out);
    expand_prompt_quad<kCodes, 3>(codes, scale, min, out);
    if (f.halves()) {
      scale = f_load(scales);
      min = f_mul(minus_zero, scale);
      scales += kTileRows;
    }
    expand_prompt_quad<kCodes, 4>(codes, scale, min, out);
    expand_prompt_quad<kCodes, 5>(codes, scale, min, out);
    expand_prompt_quad<kCodes, 6>(codes, scale, min, out);
    expand_prompt_quad<kCodes, 7>(codes, scale, min, out);
  }
}

TANDEM_INLINE F load_dense_column(const TileFormat& f, const uint8_t* tile, int64_t k) {
  if (k >= f.columns) return f_zero();
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(tile) + k * kTileRows;
  return f.dense_type == DType::kF32 ? f_load(reinterpret_cast<const float*>(tile) + k * kTileRows)
         : f.dense_type == DType::kF16 ? f_load_f16(halves)
                                       : f_load_bf16(halves);
}

static void expand_prompt_tile(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                               PromptScratch& scratch, uint16_t* out) {
  if (f.dense) {
    for (int64_t k = begin * kGroupColumns; k < end * kGroupColumns; k += 2, out += 32) {
      store_bf16_pairs(out, load_dense_column(f, tile, k), load_dense_column(f, tile, k + 1));
    }
    return;
  }
#define TANDEM_EXPAND(codes) \
  expand_prompt_codes<CodePlane::codes>(f, tile, begin, end, scratch, out)
  switch (f.codes) {
    case CodePlane::kNibble: return TANDEM_EXPAND(kNibble);
    case CodePlane::kNibble1: return TANDEM_EXPAND(kNibble1);
    case CodePlane::kNibble2: return TANDEM_EXPAND(kNibble2);
    case CodePlane::kByte: return TANDEM_EXPAND(kByte);
  }
#undef TANDEM_EXPAND
}

// --- Products ----------------------------------------------------------------

// `groups` expanded groups of kWide tiles against those of kTall times 16 tokens,
// added to sums [16 kTall][kSumStride]. Sums are in registers 0 to 3, tokens in 4
// and 5, weights in 6 and 7.
template <class Tiles, int kTall, int kWide>
static void prompt_block(Tiles& tiles, const PromptScratch& scratch, const uint16_t* x,
                         int64_t groups, bool first, float* sums) {
  constexpr int64_t kTileValues = kTileRows * kGroupColumns;
  constexpr int64_t kSumBytes = kSumStride * sizeof(float);
  float* low = sums + kTileRows * kSumStride;
  if (first) {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  } else {
    tiles.template load<0>(sums, kSumBytes);
    if (kWide == 2) tiles.template load<1>(sums + kTileRows, kSumBytes);
    if (kTall == 2) tiles.template load<2>(low, kSumBytes);
    if (kTall == 2 && kWide == 2) tiles.template load<3>(low + kTileRows, kSumBytes);
  }
  for (int64_t g = 0; g < groups; g++, x += 2 * kTileValues) {
    tiles.template load<6>(scratch.weights[0] + g * kTileValues, 64);
    tiles.template stream<4>(x, 64);
    tiles.template dot_bf16<0, 4, 6>();
    if (kWide == 2) {
      tiles.template load<7>(scratch.weights[1] + g * kTileValues, 64);
      tiles.template dot_bf16<1, 4, 7>();
    }
    if (kTall == 2) {
      tiles.template stream<5>(x + kTileValues, 64);
      tiles.template dot_bf16<2, 5, 6>();
      if (kWide == 2) tiles.template dot_bf16<3, 5, 7>();
    }
  }
  tiles.template store<0>(sums, kSumBytes);
  if (kWide == 2) tiles.template store<1>(sums + kTileRows, kSumBytes);
  if (kTall == 2) tiles.template store<2>(low, kSumBytes);
  if (kTall == 2 && kWide == 2) tiles.template store<3>(low + kTileRows, kSumBytes);
}

// Ends tokens [0, count) in runs that are neighbours in the output, too.
static void finish_prompt(const MatmulUnit& unit, const Epilogue& e, const int32_t* rows,
                          int64_t count, const float* sums) {
  for (int64_t begin = 0; begin < count;) {
    int64_t end = begin + 1;
    while (end < count && rows[end] == rows[end - 1] + 1) end++;
    finish_unit(unit, e, rows[begin], end - begin, sums + begin * kSumStride);
    begin = end;
  }
}

template <class Tiles>
static void prompt_unit(Tiles& tiles, const MatmulUnit& unit, const PromptMatmulArgs& a,
                        int64_t token, int64_t count, PromptScratch& scratch) {
  const int64_t groups = (a.columns + kGroupColumns - 1) / kGroupColumns;
  const int64_t parts = (groups + kPromptGroups - 1) / kPromptGroups;
  const bool two = unit.rows[1] > 0;
  for (int64_t part = 0; part < parts; part++) {
    const int64_t begin = groups * part / parts;
    const int64_t end = groups * (part + 1) / parts;
    for (int n = 0; n < (two ? 2 : 1); n++) {
      expand_prompt_tile(*unit.format[n], unit.tile[n], begin, end, scratch, scratch.weights[n]);
    }
    for (int64_t t = 0; t < count; t += kPromptBlock) {
      const uint16_t* x = a.x + ((token + t) * groups + begin * kPromptBlock) * kGroupColumns;
      float* sums = scratch.sums + t * kSumStride;
      const auto block = count - t <= kTileRows
                             ? (two ? &prompt_block<Tiles, 1, 2> : &prompt_block<Tiles, 1, 1>)
                             : (two ? &prompt_block<Tiles, 2, 2> : &prompt_block<Tiles, 2, 1>);
      block(tiles, scratch, x, end - begin, part == 0, sums);
    }
  }
  finish_prompt(unit, a.epilogue, a.rows + token, count, scratch.sums);
}

template <class Tiles>
static void prompt_units(const PromptMatmulArgs& a, int64_t unit_begin, int64_t unit_end,
                         int64_t token_begin, int64_t token_end, PromptScratch& scratch) {
  Tiles tiles;
  tiles.configure();
  for (int64_t u = unit_begin; u < unit_end; u++) {
    prompt_unit(tiles, a.units[u], a, token_begin, token_end - token_begin, scratch);
  }
  tiles.release();
}

void prompt_matmul_emulated(const PromptMatmulArgs& a, int64_t unit_begin, int64_t unit_end,
                            int64_t token_begin, int64_t token_end, PromptScratch& scratch) {
  prompt_units<EmulatedTiles>(a, unit_begin, unit_end, token_begin, token_end, scratch);
}

#if defined(TANDEM_SIMD_AVX512)
void prompt_matmul(const PromptMatmulArgs& a, int64_t unit_begin, int64_t unit_end,
                   int64_t token_begin, int64_t token_end, PromptScratch& scratch) {
  prompt_units<MachineTiles>(a, unit_begin, unit_end, token_begin, token_end, scratch);
}
#endif
