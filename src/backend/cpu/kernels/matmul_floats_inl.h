// Dense tiles, and in exact mode all tiles, against floats.

// --- Floats ------------------------------------------------------------------

// Weights of columns [begin, end) of one tile as floats [columns][16].
static void expand_floats(const TileFormat& f, const uint8_t* tile, int64_t begin, int64_t end,
                          MatmulScratch& scratch, int n) {
  float* out = scratch.weights[n];
  if (f.dense) {
    for (int64_t k = begin; k < end; k++, out += kTileRows) {
      const uint16_t* halves = reinterpret_cast<const uint16_t*>(tile) + k * kTileRows;
      const float* floats = reinterpret_cast<const float*>(tile) + k * kTileRows;
      f_store(out, f.dense_type == DType::kF32   ? f_load(floats)
                   : f.dense_type == DType::kF16 ? f_load_f16(halves)
                                                 : f_load_bf16(halves));
    }
    return;
  }
  alignas(64) int16_t codes[kGroupColumns * kTileRows];
  const int64_t first = begin / kGroupColumns;
  expand_scales(f, tile, first, end / kGroupColumns, scratch.scales[n], scratch.mins[n]);
  for (int64_t g = first; g < end / kGroupColumns; g++) {
    expand_any_codes(f, tile, g, g + 1, codes);
    const F m = f.has_min ? f_load(scratch.mins[n] + (g - first) * kTileRows) : f_zero();
    for (int k = 0; k < kGroupColumns; k++, out += kTileRows) {
      const int64_t i = f.halves() ? 2 * (g - first) + k / 16 : g - first;
      // Column k of a quad is the k / 2-th of pair k % 2.
      const int16_t* code = codes + (k / 4 * 2 + k % 2) * 32 + k % 4 / 2;
      float c[kTileRows];
      for (int row = 0; row < kTileRows; row++) c[row] = code[row * 2];
      f_store(out, f_fma(f_load(scratch.scales[n] + i * kTileRows), f_load(c), m));
    }
  }
}

template <int kTokens, int kTiles>
static void float_block(const MatmulScratch& scratch, const float* x, int64_t stride,
                        int64_t columns, float* out) {
  F acc[kTokens][kTiles];
  for (int t = 0; t < kTokens; t++) {
    for (int n = 0; n < kTiles; n++) acc[t][n] = f_load(out + t * kSumStride + n * kTileRows);
  }
  for (int64_t k = 0; k < columns; k++) {
    F w[kTiles];
    for (int n = 0; n < kTiles; n++) w[n] = f_load(scratch.weights[n] + k * kTileRows);
    for (int t = 0; t < kTokens; t++) {
      const F xv = f_set(x[t * stride + k]);
      for (int n = 0; n < kTiles; n++) acc[t][n] = f_fma(w[n], xv, acc[t][n]);
    }
  }
  for (int t = 0; t < kTokens; t++) {
    for (int n = 0; n < kTiles; n++) f_store(out + t * kSumStride + n * kTileRows, acc[t][n]);
  }
}

template <int kTiles>
static void float_tokens(const MatmulScratch& scratch, const float* x, int64_t stride,
                         int64_t columns, int64_t count, float* out) {
  for (; count > 0; x += kManyTokens * stride, out += kManyTokens * kSumStride) {
    switch (count < kManyTokens ? count : kManyTokens) {
      case 1: float_block<1, kTiles>(scratch, x, stride, columns, out); break;
      case 2: float_block<2, kTiles>(scratch, x, stride, columns, out); break;
      case 3: float_block<3, kTiles>(scratch, x, stride, columns, out); break;
      case 4: float_block<4, kTiles>(scratch, x, stride, columns, out); break;
      case 5: float_block<5, kTiles>(scratch, x, stride, columns, out); break;
      default: float_block<kManyTokens, kTiles>(scratch, x, stride, columns, out);
    }
    count -= kManyTokens;
  }
}

template <DType kType>
TANDEM_INLINE F load_dense(const uint8_t* p) {
  if constexpr (kType == DType::kF32) return f_load(reinterpret_cast<const float*>(p));
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(p);
  return kType == DType::kF16 ? f_load_f16(halves) : f_load_bf16(halves);
}

// Few tokens against kTiles dense tiles, straight from memory.
template <DType kType, int kTokens, int kTiles>
static void dense_block(const MatmulUnit& unit, const float* x, int64_t columns, float* out) {
  constexpr int64_t kColumnBytes = (kType == DType::kF32 ? 4 : 2) * kTileRows;
  constexpr int64_t kAtOnce = 128 / kColumnBytes;  // columns between prefetches
  F acc[kTokens][kTiles];
  const uint8_t* w[kTiles];
  for (int n = 0; n < kTiles; n++) w[n] = unit.tile[n];
  for (int t = 0; t < kTokens; t++) {
    for (int n = 0; n < kTiles; n++) acc[t][n] = f_zero();
  }
  for (int64_t begin = 0; begin < columns; begin += kAtOnce) {
    const int64_t end = begin + kAtOnce < columns ? begin + kAtOnce : columns;
    for (int n = 0; n < kTiles; n++) {
      __builtin_prefetch(w[n] + kPrefetchBytes, 0, 3);
      __builtin_prefetch(w[n] + kPrefetchBytes + 64, 0, 3);
    }
    for (int64_t k = begin; k < end; k++) {
      for (int n = 0; n < kTiles; n++) {
        const F weight = load_dense<kType>(w[n]);
        w[n] += kColumnBytes;
        for (int t = 0; t < kTokens; t++) {
          acc[t][n] = f_fma(weight, f_set(x[t * columns + k]), acc[t][n]);
        }
      }
    }
  }
  for (int t = 0; t < kTokens; t++) {
    for (int n = 0; n < kTiles; n++) f_store(out + t * kSumStride + n * kTileRows, acc[t][n]);
  }
}

template <DType kType, int kTiles>
static void dense_tokens(const MatmulUnit& unit, const float* x, int64_t columns, int64_t count,
                         float* out) {
  for (; count >= 4; count -= 4, x += 4 * columns, out += 4 * kSumStride) {
    dense_block<kType, 4, kTiles>(unit, x, columns, out);
  }
  switch (count) {
    case 1: return dense_block<kType, 1, kTiles>(unit, x, columns, out);
    case 2: return dense_block<kType, 2, kTiles>(unit, x, columns, out);
    case 3: return dense_block<kType, 3, kTiles>(unit, x, columns, out);
  }
}

static bool same_dense_type(const MatmulUnit& unit, int tiles) {
  if (!unit.format[0]->dense) return false;
  return tiles == 1 ||
         (unit.format[1]->dense && unit.format[0]->dense_type == unit.format[1]->dense_type);
}

static void dense_unit(const MatmulUnit& unit, int tiles, const MatmulArgs& args, int64_t token,
                       int64_t count, float* out) {
  const float* x = args.floats + token * args.columns;
#define TANDEM_DENSE(type)                                                     \
  tiles == 2 ? dense_tokens<DType::type, 2>(unit, x, args.columns, count, out) \
             : dense_tokens<DType::type, 1>(unit, x, args.columns, count, out)
  switch (unit.format[0]->dense_type) {
    case DType::kF16: TANDEM_DENSE(kF16); break;
    case DType::kBF16: TANDEM_DENSE(kBF16); break;
    default: TANDEM_DENSE(kF32);
  }
#undef TANDEM_DENSE
}

static void float_unit(const MatmulUnit& unit, int tiles, const MatmulArgs& args, int64_t token,
                       int64_t count, MatmulScratch& scratch) {
  if (count < kFewTokensLimit && same_dense_type(unit, tiles)) {
    return dense_unit(unit, tiles, args, token, count, scratch.sums);
  }
  for (int64_t begin = 0; begin < args.columns; begin += kBlockColumns) {
    int64_t end = begin + kBlockColumns;
    if (end > args.columns) end = args.columns;
    for (int n = 0; n < tiles; n++) {
      expand_floats(*unit.format[n], unit.tile[n], begin, end, scratch, n);
    }
    const float* x = args.floats + token * args.columns + begin;
    if (tiles == 2) {
      float_tokens<2>(scratch, x, args.columns, end - begin, count, scratch.sums);
    } else {
      float_tokens<1>(scratch, x, args.columns, end - begin, count, scratch.sums);
    }
  }
}
