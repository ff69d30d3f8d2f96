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

// Activations from one token and group on. kTerms says how codes come: 0 = int16,
// 1 or 2 = that many signed bytes.
struct QuantBlock {
  const int16_t* codes;
  const int8_t* bytes;
  const float* scale;
  const float* scaled_sum;
  const int32_t* sum;
  int64_t stride;
};

TANDEM_INLINE QuantBlock quant_block(const MatmulArgs& args, int64_t token, int64_t group) {
  const QuantView& q = args.quant;
  const int64_t at = group * q.stride + token;
  return {q.codes ? q.codes + at * kGroupColumns : nullptr,
          q.bytes ? q.bytes + at * q.terms * kGroupColumns : nullptr,
          q.scale + at,
          q.scaled_sum + at,
          q.sum + at * 2,
          q.stride};
}

template <int kTerms>
TANDEM_INLINE void next_group(QuantBlock& x) {
  if constexpr (kTerms == 0) {
    x.codes += x.stride * kGroupColumns;
  } else {
    x.bytes += x.stride * kTerms * kGroupColumns;
  }
  x.scale += x.stride;
  x.scaled_sum += x.stride;
  x.sum += x.stride * 2;
}

// Integer sums of each token, in several chains where few tokens would leave the
// multipliers waiting for each other. With two terms the first chains are of the
// term that counts 128.
template <int kTokens, int kTerms>
struct Sums {
  static constexpr int kTermChains = kTokens == 1 ? 2 : 1;
  static constexpr int kChains = kTerms == 0 ? (kTokens == 1   ? 4
                                                : kTokens == 2 ? 2
                                                               : 1)
                                             : kTerms * kTermChains;
  I v[kTokens][kChains];
};

template <CodePlane kCodes, int kTokens, int kTerms, int kQuad>
TANDEM_INLINE void add_quad(GroupCodes g, const QuantBlock& x, Sums<kTokens, kTerms>& sums) {
  const U quad = load_quad<kCodes, kQuad>(g);
  if constexpr (kTerms == 0) {
    constexpr int kChains = Sums<kTokens, kTerms>::kChains;
    const W even = u_even(quad);
    const W odd = u_odd(quad);
    for (int t = 0; t < kTokens; t++) {
      const int16_t* p = x.codes + t * kGroupColumns + kQuad * 4;
      I& first = sums.v[t][2 * kQuad % kChains];
      first = i_dot_pairs(first, even, w_set_pair(p));
      I& second = sums.v[t][(2 * kQuad + 1) % kChains];
      second = i_dot_pairs(second, odd, w_set_pair(p + 2));
    }
  } else {
#if defined(TANDEM_SIMD_AVX512)
    constexpr int kTermChains = Sums<kTokens, kTerms>::kTermChains;
    for (int t = 0; t < kTokens; t++) {
      for (int term = 0; term < kTerms; term++) {
        const int8_t* p = x.bytes + (t * kTerms + term) * kGroupColumns + kQuad * 4;
        I& sum = sums.v[t][term * kTermChains + kQuad % kTermChains];
        sum = i_dot_quads(sum, quad, u_set_quad(p));
      }
    }
#endif
  }
}

// All chains of a token as one.
template <int kTokens, int kTerms>
TANDEM_INLINE I join_chains(const Sums<kTokens, kTerms>& sums, int t) {
  constexpr int kChains = Sums<kTokens, kTerms>::kChains;
#if defined(TANDEM_SIMD_AVX512)
  if constexpr (kTerms == 2) {
    constexpr int kHalf = kChains / 2;
    I high = sums.v[t][0];
    I low = sums.v[t][kHalf];
    if constexpr (kHalf == 2) {
      high = i_add(high, sums.v[t][1]);
      low = i_add(low, sums.v[t][3]);
    }
    return i_add(i_shift_left7(high), low);
  }
#endif
  if constexpr (kChains == 4) {
    return i_add(i_add(sums.v[t][0], sums.v[t][1]), i_add(sums.v[t][2], sums.v[t][3]));
  } else if constexpr (kChains == 2) {
    return i_add(sums.v[t][0], sums.v[t][1]);
  } else {
    return sums.v[t][0];
  }
}

template <CodePlane kCodes, int kTokens, int kTerms, int kFirst>
TANDEM_INLINE void add_half(GroupCodes g, const QuantBlock& x, Sums<kTokens, kTerms>& sums) {
  add_quad<kCodes, kTokens, kTerms, kFirst>(g, x, sums);
  add_quad<kCodes, kTokens, kTerms, kFirst + 1>(g, x, sums);
  add_quad<kCodes, kTokens, kTerms, kFirst + 2>(g, x, sums);
  add_quad<kCodes, kTokens, kTerms, kFirst + 3>(g, x, sums);
}

// What the zero point of unsigned codes adds to the sums of token t: it is taken
// off in the chain that counts 1.
template <bool kHalves>
TANDEM_INLINE int32_t code_sum(const QuantBlock& x, int t, int half) {
  return kHalves ? x.sum[2 * t + half] : x.sum[2 * t] + x.sum[2 * t + 1];
}

// The hardware's prefetchers stop at every page and start anew.
constexpr int64_t kPrefetchBytes = 4096;
template <CodePlane kCodes>
TANDEM_INLINE void prefetch_codes(GroupCodes g) {
  constexpr int kLines = kCodes == CodePlane::kByte ? 8 : 4;
  for (int i = 0; i < kLines; i++) __builtin_prefetch(g.codes + kPrefetchBytes + i * 64, 0, 3);
}

// Groups [begin, end) of one tile into acc [kTokens][kSumStride].
template <CodePlane kCodes, bool kMin, bool kHalves, int kTerms, int kTokens>
static void few_block(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                      QuantBlock x, const float* scales, const float* mins, float* out) {
  F acc[kTokens];
  for (int t = 0; t < kTokens; t++) acc[t] = f_load(out + t * kSumStride);
  GroupCodes codes = group_codes<kCodes>(f, tile, begin);
  for (int64_t g = begin; g < end; g++) {
    prefetch_codes<kCodes>(codes);
    Sums<kTokens, kTerms> sums;
    constexpr int kChains = Sums<kTokens, kTerms>::kChains;
    for (int half = 0; half < (kHalves ? 2 : 1); half++) {
      for (int t = 0; t < kTokens; t++) {
        for (int c = 0; c < kChains - 1; c++) sums.v[t][c] = i_zero();
        sums.v[t][kChains - 1] = kMin ? i_zero() : i_set(-f.zero * code_sum<kHalves>(x, t, half));
      }
      if (!kHalves || half == 0) add_half<kCodes, kTokens, kTerms, 0>(codes, x, sums);
      if (!kHalves || half == 1) add_half<kCodes, kTokens, kTerms, 4>(codes, x, sums);
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
    next_group<kTerms>(x);
    codes = {codes.codes + code_bytes<kCodes>(), codes.high + high_bytes<kCodes>()};
  }
  for (int t = 0; t < kTokens; t++) f_store(out + t * kSumStride, acc[t]);
}

template <CodePlane kCodes, bool kMin, bool kHalves, int kTerms>
static void few_blocks(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                       const MatmulArgs& args, int64_t token, int64_t count, const float* scales,
                       const float* mins, float* out) {
  while (count > 0) {
    const QuantBlock x = quant_block(args, token, begin);
    const int64_t n = count < kFewTokens ? count : kFewTokens;
    if (n == 1) {
      few_block<kCodes, kMin, kHalves, kTerms, 1>(f, tile, begin, end, x, scales, mins, out);
    } else if (n == 2) {
      few_block<kCodes, kMin, kHalves, kTerms, 2>(f, tile, begin, end, x, scales, mins, out);
    } else if (n == 3 || kFewTokens == 3) {
      few_block<kCodes, kMin, kHalves, kTerms, 3>(f, tile, begin, end, x, scales, mins, out);
    } else {
      few_block<kCodes, kMin, kHalves, kTerms, kFewTokens>(f, tile, begin, end, x, scales, mins,
                                                           out);
    }
    token += n;
    count -= n;
    out += n * kSumStride;
  }
}

template <CodePlane kCodes, bool kMin, bool kHalves>
static void few_tokens(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                       const MatmulArgs& args, int64_t token, int64_t count, const float* scales,
                       const float* mins, float* out) {
#if defined(TANDEM_SIMD_AVX512)
  if (args.quant.bytes) {
    return args.quant.terms == 1 ? few_blocks<kCodes, kMin, kHalves, 1>(
                                       f, tile, begin, end, args, token, count, scales, mins, out)
                                 : few_blocks<kCodes, kMin, kHalves, 2>(
                                       f, tile, begin, end, args, token, count, scales, mins, out);
  }
#endif
  few_blocks<kCodes, kMin, kHalves, 0>(f, tile, begin, end, args, token, count, scales, mins, out);
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

#if defined(TANDEM_SIMD_AVX512)

// The codes as they are: 8 quads a group, [quad][16 rows][4].
template <CodePlane kCodes>
static void expand_bytes(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                         uint8_t* out) {
  for (int64_t g = begin; g < end; g++, out += kGroupColumns * kTileRows) {
    const GroupCodes codes = group_codes<kCodes>(f, tile, g);
    u_store(out, load_quad<kCodes, 0>(codes));
    u_store(out + 64, load_quad<kCodes, 1>(codes));
    u_store(out + 128, load_quad<kCodes, 2>(codes));
    u_store(out + 192, load_quad<kCodes, 3>(codes));
    u_store(out + 256, load_quad<kCodes, 4>(codes));
    u_store(out + 320, load_quad<kCodes, 5>(codes));
    u_store(out + 384, load_quad<kCodes, 6>(codes));
    u_store(out + 448, load_quad<kCodes, 7>(codes));
  }
}

static void expand_any_bytes(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                             uint8_t* out) {
  switch (f.codes) {
    case CodePlane::kNibble: return expand_bytes<CodePlane::kNibble>(f, tile, begin, end, out);
    case CodePlane::kNibble1: return expand_bytes<CodePlane::kNibble1>(f, tile, begin, end, out);
    case CodePlane::kNibble2: return expand_bytes<CodePlane::kNibble2>(f, tile, begin, end, out);
    case CodePlane::kByte: return expand_bytes<CodePlane::kByte>(f, tile, begin, end, out);
  }
}

#endif

// Integer sums of kTokens tokens and kTiles tiles.
template <int kTokens, int kTiles>
struct Grid {
  I v[kTokens][kTiles];
};

// Part `part` of `kParts` of a group. `w`: its weights of the first tile, those
// of the next kBlockColumns further on.
template <int kTokens, int kTiles, int kTerms, int kParts>
TANDEM_INLINE void add_part(const uint8_t* w, int part, const QuantBlock& x,
                            Grid<kTokens, kTiles>& sums) {
  constexpr int64_t kNext = sizeof(float) * kBlockColumns * kTileRows;
  if constexpr (kTerms == 0) {
    constexpr int kPairs = kGroupColumns / 2 / kParts;
    for (int p = 0; p < kPairs; p++, w += 4 * kTileRows) {
      W weight[kTiles];
      for (int n = 0; n < kTiles; n++) {
        weight[n] = w_load(reinterpret_cast<const int16_t*>(w + n * kNext));
      }
      for (int t = 0; t < kTokens; t++) {
        const W pair = w_set_pair(x.codes + t * kGroupColumns + (part * kPairs + p) * 2);
        for (int n = 0; n < kTiles; n++) {
          sums.v[t][n] = i_dot_pairs(sums.v[t][n], weight[n], pair);
        }
      }
    }
  } else {
#if defined(TANDEM_SIMD_AVX512)
    constexpr int kQuads = kGroupColumns / 4 / kParts;
    for (int q = 0; q < kQuads; q++, w += 4 * kTileRows) {
      U weight[kTiles];
      for (int n = 0; n < kTiles; n++) weight[n] = u_load(w + n * kNext);
      for (int t = 0; t < kTokens; t++) {
        const U quad = u_set_quad(x.bytes + t * kGroupColumns + (part * kQuads + q) * 4);
        for (int n = 0; n < kTiles; n++) {
          sums.v[t][n] = i_dot_quads(sums.v[t][n], weight[n], quad);
        }
      }
    }
#endif
  }
}

// kTokens tokens against kTiles expanded tiles over `groups` groups, added to
// out [kTokens][kSumStride]. `first` is the place of the first tile in scratch;
// `zero` the codes' zero point where they were expanded as bytes.
template <int kTokens, int kTiles, int kTerms, bool kMin, bool kHalves>
static void many_block(const MatmulScratch& scratch, int first, int64_t groups, int zero,
                       QuantBlock x, float* out) {
  F acc[kTokens][kTiles];
  for (int t = 0; t < kTokens; t++) {
    for (int n = 0; n < kTiles; n++) acc[t][n] = f_load(out + t * kSumStride + n * kTileRows);
  }
  constexpr int kParts = kHalves ? 2 : 1;
  constexpr int kPartBytes = kGroupColumns * kTileRows * (kTerms == 0 ? 2 : 1) / kParts;
  const uint8_t* w = reinterpret_cast<const uint8_t*>(scratch.weights[first]);
  for (int64_t g = 0; g < groups; g++, next_group<kTerms>(x)) {
    for (int part = 0; part < kParts; part++, w += kPartBytes) {
      Grid<kTokens, kTiles> sums;
      for (int t = 0; t < kTokens; t++) {
        const I start =
            kTerms == 0 || kMin ? i_zero() : i_set(-zero * code_sum<kHalves>(x, t, part));
        for (int n = 0; n < kTiles; n++) sums.v[t][n] = start;
      }
      add_part<kTokens, kTiles, kTerms, kParts>(w, part, x, sums);
      for (int n = 0; n < kTiles; n++) {
        const F d = f_load(scratch.scales[first + n] + (g * kParts + part) * kTileRows);
        for (int t = 0; t < kTokens; t++) {
          const F factor = f_mul(d, f_set(x.scale[t]));
          acc[t][n] = f_fma(f_from_i(sums.v[t][n]), factor, acc[t][n]);
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

// What many_tokens needs beside its shape.
struct ManyTask {
  const MatmulArgs* args;
  MatmulScratch* scratch;
  int first;  // tile in scratch
  int zero;
  int64_t group;  // first group of the block
  int64_t groups;
  int64_t token;
  int64_t count;
};

template <int kTokens, int kTiles, int kTerms, bool kMin, bool kHalves>
TANDEM_INLINE void take_tokens(ManyTask& task, float*& out) {
  many_block<kTokens, kTiles, kTerms, kMin, kHalves>(
      *task.scratch, task.first, task.groups, task.zero,
      quant_block(*task.args, task.token, task.group), out);
  task.token += kTokens;
  task.count -= kTokens;
  out += kTokens * kSumStride;
}

template <int kTiles, int kTerms, bool kMin, bool kHalves>
static void many_tokens(ManyTask task) {
  float* out = task.scratch->sums + task.first * kTileRows;
  while (task.count >= kManyTokens) {
    take_tokens<kManyTokens, kTiles, kTerms, kMin, kHalves>(task, out);
  }
  if (task.count >= 4) take_tokens<4, kTiles, kTerms, kMin, kHalves>(task, out);
  if (task.count >= 2) take_tokens<2, kTiles, kTerms, kMin, kHalves>(task, out);
  if (task.count >= 1) take_tokens<1, kTiles, kTerms, kMin, kHalves>(task, out);
}

template <int kTiles, int kTerms>
static void many_any(const TileFormat& f, ManyTask task) {
  task.zero = f.zero;
  if (f.has_min) {
    many_tokens<kTiles, kTerms, true, false>(task);
  } else if (f.halves()) {
    many_tokens<kTiles, kTerms, false, true>(task);
  } else {
    many_tokens<kTiles, kTerms, false, false>(task);
  }
}

template <int kTiles>
static void many_tiles(const TileFormat& f, const ManyTask& task) {
#if defined(TANDEM_SIMD_AVX512)
  if (task.args->quant.bytes) return many_any<kTiles, 1>(f, task);
#endif
  many_any<kTiles, 0>(f, task);
}

static void expand_tile(const TileFormat& f, const uint8_t* tile, const MatmulArgs& args,
                        int64_t begin, int64_t end, int n, MatmulScratch& scratch) {
  expand_scales(f, tile, begin, end, scratch.scales[n], scratch.mins[n]);
#if defined(TANDEM_SIMD_AVX512)
  if (args.quant.bytes) {
    return expand_any_bytes(f, tile, begin, end, reinterpret_cast<uint8_t*>(scratch.weights[n]));
  }
#endif
  (void)args;
  expand_any_codes(f, tile, begin, end, reinterpret_cast<int16_t*>(scratch.weights[n]));
}

static void many_unit(const MatmulUnit& unit, int tiles, const MatmulArgs& args, int64_t token,
                      int64_t count, MatmulScratch& scratch) {
  const int64_t groups = args.columns / kGroupColumns;
  const bool together = kManyTiles == 2 && tiles == 2 &&
                        unit.format[0]->has_min == unit.format[1]->has_min &&
                        unit.format[0]->halves() == unit.format[1]->halves() &&
                        unit.format[0]->zero == unit.format[1]->zero;
  for (int64_t begin = 0; begin < groups; begin += kBlockColumns / kGroupColumns) {
    int64_t end = begin + kBlockColumns / kGroupColumns;
    if (end > groups) end = groups;
    for (int n = 0; n < tiles; n++) {
      expand_tile(*unit.format[n], unit.tile[n], args, begin, end, n, scratch);
    }
    ManyTask task = {&args, &scratch, 0, 0, begin, end - begin, token, count};
    if (together) {
      many_tiles<2>(*unit.format[0], task);
      continue;
    }
    for (; task.first < tiles; task.first++) many_tiles<1>(*unit.format[task.first], task);
  }
}
