// Quantised tiles against integer codes: how both paths of matmul_inl.h read a
// tile, the path for few tokens and the one for many.

// --- Scales ------------------------------------------------------------------

TANDEM_INLINE F load_scale(ScalePlane plane, const uint8_t* p, int64_t index) {
  switch (plane) {
    case ScalePlane::kF16:
      return f_load_f16(reinterpret_cast<const uint16_t*>(p) + index * kTileRows);
    case ScalePlane::kBF16:
      return f_load_bf16(reinterpret_cast<const uint16_t*>(p) + index * kTileRows);
    case ScalePlane::kF32: return f_load(reinterpret_cast<const float*>(p) + index * kTileRows);
    case ScalePlane::kSuperU8: return f_from_u8(p + index * kTileRows);
    case ScalePlane::kSuperS8:
      return f_from_s8(reinterpret_cast<const int8_t*>(p) + index * kTileRows);
  }
  return f_zero();
}

TANDEM_INLINE F load_super(const TileFormat& f, const uint8_t* tile, int64_t index) {
  return f_load_f16(reinterpret_cast<const uint16_t*>(tile + f.super_at) + index * kTileRows);
}

// Scales (and mins) of groups [begin, end) as floats, one vector a group, or
// two where a scale covers half a group.
static void expand_scales(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                          float* scales, float* mins) {
  const bool super = f.scales == ScalePlane::kSuperU8 || f.scales == ScalePlane::kSuperS8;
  const int per_group = f.halves() ? 2 : 1;
  const int shift = f.scale_columns == 128 ? 2 : f.scale_columns == 64 ? 1 : 0;
  const int64_t supers = f.columns / 256;
  for (int64_t g = begin; g < end; g++) {
    F d = f_set(1.0f);
    if (super) d = load_super(f, tile, g / 8);
    for (int i = 0; i < per_group; i++) {
      const int64_t index = f.halves() ? 2 * g + i : g >> shift;
      F s = load_scale(f.scales, tile + f.scales_at, index);
      if (super) s = f_mul(s, d);
      f_store(scales + ((g - begin) * per_group + i) * kTileRows, s);
    }
    if (!f.has_min) continue;
    F m = load_scale(f.scales, tile + f.mins_at, g >> shift);
    if (super) m = f_mul(m, f_sub(f_zero(), load_super(f, tile, supers + g / 8)));
    f_store(mins + (g - begin) * kTileRows, m);
  }
}

// --- Codes -------------------------------------------------------------------

// Where the codes of one group lie.
struct GroupCodes {
  const uint8_t* codes;
  const uint8_t* high;
};

template <CodePlane kCodes>
constexpr int64_t code_bytes() {
  return kCodes == CodePlane::kByte ? 512 : 256;
}

template <CodePlane kCodes>
constexpr int64_t high_bytes() {
  return kCodes == CodePlane::kNibble1 ? 64 : kCodes == CodePlane::kNibble2 ? 128 : 0;
}

template <CodePlane kCodes>
TANDEM_INLINE GroupCodes group_codes(const TileFormat& f, const uint8_t* tile, int64_t g) {
  return {tile + f.codes_at + g * code_bytes<kCodes>(),
          tile + f.high_at + g * high_bytes<kCodes>()};
}

template <CodePlane kCodes, int kQuad>
TANDEM_INLINE U load_quad(GroupCodes g) {
  if constexpr (kCodes == CodePlane::kByte) return u_load(g.codes + kQuad * 64);
  const U both = u_load(g.codes + kQuad / 2 * 64);
  const U low = kQuad % 2 ? u_high_nibbles(both) : u_low_nibbles(both);
  if constexpr (kCodes == CodePlane::kNibble1) return u_or_high<kQuad, 1>(low, u_load(g.high));
  if constexpr (kCodes == CodePlane::kNibble2) {
    return u_or_high<kQuad % 4 * 2, 3>(low, u_load(g.high + kQuad / 4 * 64));
  }
  return low;
}

// --- Few tokens --------------------------------------------------------------

// Activations from one token and group on.
struct QuantBlock {
  const int16_t* codes;
  const float* scale;
  const float* scaled_sum;
  const int32_t* sum;
  int64_t stride;
};

TANDEM_INLINE QuantBlock quant_block(const MatmulArgs& args, int64_t token, int64_t group) {
  const QuantView& q = args.quant;
  const int64_t at = group * q.stride + token;
  return {q.codes + at * kGroupColumns, q.scale + at, q.scaled_sum + at, q.sum + at * 2, q.stride};
}

TANDEM_INLINE void next_group(QuantBlock& x) {
  x.codes += x.stride * kGroupColumns;
  x.scale += x.stride;
  x.scaled_sum += x.stride;
  x.sum += x.stride * 2;
}

// Integer sums of each token, in several chains where few tokens would leave the
// multipliers waiting for each other.
template <int kTokens>
struct Sums {
  static constexpr int kChains = kTokens == 1 ? 4 : kTokens == 2 ? 2 : 1;
  I v[kTokens][kChains];
};

template <CodePlane kCodes, int kTokens, int kQuad>
TANDEM_INLINE void add_quad(GroupCodes g, const int16_t* x, Sums<kTokens>& sums) {
  constexpr int kChains = Sums<kTokens>::kChains;
  const U quad = load_quad<kCodes, kQuad>(g);
  const W even = u_even(quad);
  const W odd = u_odd(quad);
  for (int t = 0; t < kTokens; t++) {
    const int16_t* p = x + t * kGroupColumns + kQuad * 4;
    I& first = sums.v[t][2 * kQuad % kChains];
    first = i_dot_pairs(first, even, w_set_pair(p));
    I& second = sums.v[t][(2 * kQuad + 1) % kChains];
    second = i_dot_pairs(second, odd, w_set_pair(p + 2));
  }
}

template <int kTokens>
TANDEM_INLINE I join_chains(const Sums<kTokens>& sums, int t) {
  if constexpr (Sums<kTokens>::kChains == 4) {
    return i_add(i_add(sums.v[t][0], sums.v[t][1]), i_add(sums.v[t][2], sums.v[t][3]));
  } else if constexpr (Sums<kTokens>::kChains == 2) {
    return i_add(sums.v[t][0], sums.v[t][1]);
  } else {
    return sums.v[t][0];
  }
}

template <CodePlane kCodes, int kTokens, int kFirst>
TANDEM_INLINE void add_half(GroupCodes g, const int16_t* x, Sums<kTokens>& sums) {
  add_quad<kCodes, kTokens, kFirst>(g, x, sums);
  add_quad<kCodes, kTokens, kFirst + 1>(g, x, sums);
  add_quad<kCodes, kTokens, kFirst + 2>(g, x, sums);
  add_quad<kCodes, kTokens, kFirst + 3>(g, x, sums);
}

// The hardware's prefetchers stop at every page and start anew.
constexpr int64_t kPrefetchBytes = 3072;
template <CodePlane kCodes>
TANDEM_INLINE void prefetch_codes(GroupCodes g) {
  constexpr int kLines = kCodes == CodePlane::kByte ? 8 : 4;
  for (int i = 0; i < kLines; i++) __builtin_prefetch(g.codes + kPrefetchBytes + i * 64, 0, 3);
}

// Groups [begin, end) of one tile into acc [kTokens][kSumStride].
template <CodePlane kCodes, bool kMin, bool kHalves, int kTokens>
static void few_block(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                      QuantBlock x, const float* scales, const float* mins, float* out) {
  F acc[kTokens];
  for (int t = 0; t < kTokens; t++) acc[t] = f_load(out + t * kSumStride);
  GroupCodes codes = group_codes<kCodes>(f, tile, begin);
  for (int64_t g = begin; g < end; g++) {
    prefetch_codes<kCodes>(codes);
    Sums<kTokens> sums;
    for (int half = 0; half < (kHalves ? 2 : 1); half++) {
      for (int t = 0; t < kTokens; t++) {
        const int32_t total = kHalves ? x.sum[2 * t + half] : x.sum[2 * t] + x.sum[2 * t + 1];
        sums.v[t][0] = kMin ? i_zero() : i_set(-f.zero * total);
        for (int c = 1; c < Sums<kTokens>::kChains; c++) sums.v[t][c] = i_zero();
      }
      if (!kHalves || half == 0) add_half<kCodes, kTokens, 0>(codes, x.codes, sums);
      if (!kHalves || half == 1) add_half<kCodes, kTokens, 4>(codes, x.codes, sums);
      const F d = f_load(scales);
      scales += kTileRows;
      for (int t = 0; t < kTokens; t++) {
        const F factor = f_mul(d, f_set(x.scale[t]));
        acc[t] = f_fma(f_from_i(join_chains(sums, t)), factor, acc[t]);
      }
    }
    if constexpr (kMin) {
      const F m = f_load(mins);
      mins += kTileRows;
      for (int t = 0; t < kTokens; t++) acc[t] = f_fma(m, f_set(x.scaled_sum[t]), acc[t]);
    }
    next_group(x);
    codes = {codes.codes + code_bytes<kCodes>(), codes.high + high_bytes<kCodes>()};
  }
  for (int t = 0; t < kTokens; t++) f_store(out + t * kSumStride, acc[t]);
}

template <CodePlane kCodes, bool kMin, bool kHalves>
static void few_tokens(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                       const MatmulArgs& args, int64_t token, int64_t count, const float* scales,
                       const float* mins, float* out) {
  while (count > 0) {
    const QuantBlock x = quant_block(args, token, begin);
    const int64_t n = count < kFewTokens ? count : kFewTokens;
    if (n == 1) {
      few_block<kCodes, kMin, kHalves, 1>(f, tile, begin, end, x, scales, mins, out);
    } else if (n == 2) {
      few_block<kCodes, kMin, kHalves, 2>(f, tile, begin, end, x, scales, mins, out);
    } else if (n == 3 || kFewTokens == 3) {
      few_block<kCodes, kMin, kHalves, 3>(f, tile, begin, end, x, scales, mins, out);
    } else {
      few_block<kCodes, kMin, kHalves, kFewTokens>(f, tile, begin, end, x, scales, mins, out);
    }
    token += n;
    count -= n;
    out += n * kSumStride;
  }
}

// One tile for a few tokens into sums [count][kSumStride], cleared before.
static void few_tile(const TileFormat& f, const uint8_t* tile, const MatmulArgs& args,
                     int64_t token, int64_t count, MatmulScratch& scratch, float* sums) {
  const int64_t groups = args.columns / kGroupColumns;
  float* scales = scratch.scales[0];
  float* mins = scratch.mins[0];
  for (int64_t begin = 0; begin < groups; begin += kStreamColumns / kGroupColumns) {
    int64_t end = begin + kStreamColumns / kGroupColumns;
    if (end > groups) end = groups;
    expand_scales(f, tile, begin, end, scales, mins);
#define TANDEM_FEW(codes, min, halves)                                                             \
  few_tokens<CodePlane::codes, min, halves>(f, tile, begin, end, args, token, count, scales, mins, \
                                            sums)
    switch (f.codes) {
      case CodePlane::kNibble:
        f.has_min ? TANDEM_FEW(kNibble, true, false) : TANDEM_FEW(kNibble, false, false);
        break;
      case CodePlane::kNibble1:
        f.has_min ? TANDEM_FEW(kNibble1, true, false) : TANDEM_FEW(kNibble1, false, false);
        break;
      case CodePlane::kNibble2:
        f.has_min ? TANDEM_FEW(kNibble2, true, false) : TANDEM_FEW(kNibble2, false, true);
        break;
      case CodePlane::kByte:
        f.has_min ? TANDEM_FEW(kByte, true, false) : TANDEM_FEW(kByte, false, false);
        break;
    }
#undef TANDEM_FEW
  }
}

// --- Many tokens -------------------------------------------------------------

template <CodePlane kCodes, int kQuad>
TANDEM_INLINE void expand_quad(GroupCodes g, int zero, int16_t* out) {
  const U quad = load_quad<kCodes, kQuad>(g);
  w_store(out + kQuad * 64, w_sub(u_even(quad), static_cast<int16_t>(zero)));
  w_store(out + kQuad * 64 + 32, w_sub(u_odd(quad), static_cast<int16_t>(zero)));
}

// Codes less their zero point of groups [begin, end): 16 pairs of columns a
// group, [pair][16 rows][2].
template <CodePlane kCodes>
static void expand_codes(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                         int16_t* out) {
  for (int64_t g = begin; g < end; g++, out += kGroupColumns * kTileRows) {
    const GroupCodes codes = group_codes<kCodes>(f, tile, g);
    expand_quad<kCodes, 0>(codes, f.zero, out);
    expand_quad<kCodes, 1>(codes, f.zero, out);
    expand_quad<kCodes, 2>(codes, f.zero, out);
    expand_quad<kCodes, 3>(codes, f.zero, out);
    expand_quad<kCodes, 4>(codes, f.zero, out);
    expand_quad<kCodes, 5>(codes, f.zero, out);
    expand_quad<kCodes, 6>(codes, f.zero, out);
    expand_quad<kCodes, 7>(codes, f.zero, out);
  }
}

static void expand_any_codes(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                             int16_t* out) {
  switch (f.codes) {
    case CodePlane::kNibble: return expand_codes<CodePlane::kNibble>(f, tile, begin, end, out);
    case CodePlane::kNibble1: return expand_codes<CodePlane::kNibble1>(f, tile, begin, end, out);
    case CodePlane::kNibble2: return expand_codes<CodePlane::kNibble2>(f, tile, begin, end, out);
    case CodePlane::kByte: return expand_codes<CodePlane::kByte>(f, tile, begin, end, out);
  }
}

// kTokens tokens against kTiles expanded tiles over `groups` groups, added to
// out [kTokens][kSumStride]. `first` is the place of the first tile in scratch.
template <int kTokens, int kTiles, bool kMin, bool kHalves>
static void many_block(const MatmulScratch& scratch, int first, int64_t groups, QuantBlock x,
                       float* out) {
  F acc[kTokens][kTiles];
  for (int t = 0; t < kTokens; t++) {
    for (int n = 0; n < kTiles; n++) acc[t][n] = f_load(out + t * kSumStride + n * kTileRows);
  }
  constexpr int kParts = kHalves ? 2 : 1;
  constexpr int kPairs = kGroupColumns / 2 / kParts;
  constexpr int64_t kNext = 2 * kBlockColumns * kTileRows;  // int16s from tile to tile
  const int16_t* w = reinterpret_cast<const int16_t*>(scratch.weights[first]);
  for (int64_t g = 0; g < groups; g++, next_group(x)) {
    for (int part = 0; part < kParts; part++) {
      I sums[kTokens][kTiles];
      for (int t = 0; t < kTokens; t++) {
        for (int n = 0; n < kTiles; n++) sums[t][n] = i_zero();
      }
      for (int p = part * kPairs; p < (part + 1) * kPairs; p++, w += 2 * kTileRows) {
        W weight[kTiles];
        for (int n = 0; n < kTiles; n++) weight[n] = w_load(w + n * kNext);
        for (int t = 0; t < kTokens; t++) {
          const W pair = w_set_pair(x.codes + t * kGroupColumns + p * 2);
          for (int n = 0; n < kTiles; n++) sums[t][n] = i_dot_pairs(sums[t][n], weight[n], pair);
        }
      }
      for (int n = 0; n < kTiles; n++) {
        const F d = f_load(scratch.scales[first + n] + (g * kParts + part) * kTileRows);
        for (int t = 0; t < kTokens; t++) {
          const F factor = f_mul(d, f_set(x.scale[t]));
          acc[t][n] = f_fma(f_from_i(sums[t][n]), factor, acc[t][n]);
        }
      }
    }
    if constexpr (!kMin) continue;
    for (int n = 0; n < kTiles; n++) {
      const F m = f_load(scratch.mins[first + n] + g * kTileRows);
      for (int t = 0; t < kTokens; t++) acc[t][n] = f_fma(m, f_set(x.scaled_sum[t]), acc[t][n]);
    }
  }
  for (int t = 0; t < kTokens; t++) {
    for (int n = 0; n < kTiles; n++) f_store(out + t * kSumStride + n * kTileRows, acc[t][n]);
  }
}

template <int kTiles, bool kMin, bool kHalves>
static void many_tokens(const MatmulArgs& args, const MatmulScratch& scratch, int first,
                        int64_t begin, int64_t groups, int64_t token, int64_t count, float* out) {
  for (; count >= kManyTokens; count -= kManyTokens, token += kManyTokens) {
    many_block<kManyTokens, kTiles, kMin, kHalves>(scratch, first, groups,
                                                   quant_block(args, token, begin), out);
    out += kManyTokens * kSumStride;
  }
  if (count == 0) return;
  const QuantBlock x = quant_block(args, token, begin);
  switch (count) {
    case 1: return many_block<1, kTiles, kMin, kHalves>(scratch, first, groups, x, out);
    case 2: return many_block<2, kTiles, kMin, kHalves>(scratch, first, groups, x, out);
    case 3: return many_block<3, kTiles, kMin, kHalves>(scratch, first, groups, x, out);
    case 4: return many_block<4, kTiles, kMin, kHalves>(scratch, first, groups, x, out);
    case 5: return many_block<5, kTiles, kMin, kHalves>(scratch, first, groups, x, out);
  }
}

template <int kTiles>
static void many_any(const TileFormat& f, const MatmulArgs& args, const MatmulScratch& scratch,
                     int first, int64_t begin, int64_t groups, int64_t token, int64_t count) {
  float* out = const_cast<float*>(scratch.sums) + first * kTileRows;
  if (f.has_min) {
    many_tokens<kTiles, true, false>(args, scratch, first, begin, groups, token, count, out);
  } else if (f.halves()) {
    many_tokens<kTiles, false, true>(args, scratch, first, begin, groups, token, count, out);
  } else {
    many_tokens<kTiles, false, false>(args, scratch, first, begin, groups, token, count, out);
  }
}

static void many_unit(const MatmulUnit& unit, int tiles, const MatmulArgs& args, int64_t token,
                      int64_t count, MatmulScratch& scratch) {
  const int64_t groups = args.columns / kGroupColumns;
  const bool together = kManyTiles == 2 && tiles == 2 &&
                        unit.format[0]->has_min == unit.format[1]->has_min &&
                        unit.format[0]->halves() == unit.format[1]->halves();
  for (int64_t begin = 0; begin < groups; begin += kBlockColumns / kGroupColumns) {
    int64_t end = begin + kBlockColumns / kGroupColumns;
    if (end > groups) end = groups;
    for (int n = 0; n < tiles; n++) {
      const TileFormat& f = *unit.format[n];
      expand_scales(f, unit.tile[n], begin, end, scratch.scales[n], scratch.mins[n]);
      expand_any_codes(f, unit.tile[n], begin, end, reinterpret_cast<int16_t*>(scratch.weights[n]));
    }
    if (together) {
      many_any<2>(*unit.format[0], args, scratch, 0, begin, end - begin, token, count);
      continue;
    }
    for (int n = 0; n < tiles; n++) {
      many_any<1>(*unit.format[n], args, scratch, n, begin, end - begin, token, count);
    }
  }
}
