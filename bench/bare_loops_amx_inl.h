// AMX loops of bare_loops.cpp.

TANDEM_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")
namespace {

constexpr double kTileOps = 2.0 * kPeakSteps * 4 * 16 * 16 * 64;

// Registers 0 to 3 sums, 4 and 5 of tokens, 6 and 7 of weights with `depth` rows.
TileConfig tile_shape(int tokens, int row_bytes, int depth) {
  TileConfig config;
  for (int i = 0; i < 4; i++) config.set(i, tokens, 64);
  for (int i = 4; i < 6; i++) config.set(i, tokens, row_bytes);
  for (int i = 6; i < 8; i++) config.set(i, depth, 64);
  return config;
}

void peak_tile_bytes() {
  tile_config(tile_shape(16, 64, 16));
  for (int i = 0; i < kPeakSteps; i++) {
    tile_dot_bytes<0, 4, 6>();
    tile_dot_bytes<1, 4, 7>();
    tile_dot_bytes<2, 5, 6>();
    tile_dot_bytes<3, 5, 7>();
  }
  tile_release();
}

void peak_tile_bf16() {
  tile_config(tile_shape(16, 64, 16));
  for (int i = 0; i < kPeakSteps; i++) {
    tile_dot_bf16<0, 4, 6>();
    tile_dot_bf16<1, 4, 7>();
    tile_dot_bf16<2, 5, 6>();
    tile_dot_bf16<3, 5, 7>();
  }
  tile_release();
}

template <bool kBytes>
TANDEM_INLINE void tile_square() {
  if constexpr (kBytes) {
    tile_dot_bytes<0, 4, 6>();
    tile_dot_bytes<1, 4, 7>();
    tile_dot_bytes<2, 5, 6>();
    tile_dot_bytes<3, 5, 7>();
  } else {
    tile_dot_bf16<0, 4, 6>();
    tile_dot_bf16<1, 4, 7>();
    tile_dot_bf16<2, 5, 6>();
    tile_dot_bf16<3, 5, 7>();
  }
}

// Where the tiles of tokens lie: [block of 32][step][2][16][64], so that a block
// is read in order.
constexpr int64_t kBlockStep = 2048;

// 32 tokens against two tiles over the whole depth; weights [step][16][64] of each
// tile. kAhead: steps of tokens to prefetch; kApart: bytes from step to step.
template <bool kBytes, int kAhead, int kApart = kBlockStep>
static void tile_square_block(const void* weights, const void* tokens, int64_t steps, float* out) {
  const char* w = static_cast<const char*>(weights);
  const char* x = static_cast<const char*>(tokens);
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  for (int64_t i = 0; i < steps; i++) {
    tile_load<6>(w + i * 1024, 64);
    tile_load<4>(x, 64);
    tile_load<7>(w + (steps + i) * 1024, 64);
    tile_load<5>(x + 1024, 64);
    if (kAhead > 0) {
      for (int line = 0; line < 32; line++) {
        __builtin_prefetch(x + kAhead * kBlockStep + line * 64, 0, 3);
      }
    }
    tile_square<kBytes>();
    x += kApart;
  }
  tile_store<0>(out, kRows * 4);
  tile_store<1>(out + 16, kRows * 4);
  tile_store<2>(out + 16 * kRows, kRows * 4);
  tile_store<3>(out + 16 * kRows + 16, kRows * 4);
}

// No scales and no unpacking: what the loads leave of the peak. kApart 0: the
// tokens' tiles never leave the first cache.
template <bool kBytes, int kAhead, int kApart>
void amx_bare(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  tile_config(tile_shape(16, 64, 16));
  constexpr int64_t kSteps = kBytes ? kGroups / 2 : kGroups;
  for (int64_t tile = begin; tile < end; tile += 2) {
    for (int64_t t = 0; t + 32 <= p.tokens; t += 32) {
      tile_square_block<kBytes, kAhead, kApart>(scratch.weights.data, p.blocks.data + t * kColumns,
                                                kSteps, p.out.data + t * kRows + tile * 16);
    }
  }
  tile_release();
}

// Expands two tiles, then meets all tokens; the tokens come from the second cache.
template <int kTokens, int kAhead>
void amx_bf16(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  tile_config(tile_shape(kTokens < 16 ? kTokens : 16, 64, 16));
  const uint8_t* w = scratch.weights.data;
  for (int64_t tile = begin; tile < end; tile += 2) {
    expand_bf16_512(p, tile, 0, kGroups, scratch.weights.data);
    expand_bf16_512(p, tile + 1, 0, kGroups, scratch.weights.data + kGroups * 1024);
    for (int64_t t = 0; t < p.tokens; t += kTokens) {
      float* out = p.out.data + t * kRows + tile * 16;
      if constexpr (kTokens == 32) {
        tile_square_block<false, kAhead>(w, p.blocks.data + t * kColumns, kGroups, out);
      } else {
        const uint16_t* x = p.bf16.data + t * 32;
        tile_zero<0>();
        tile_zero<1>();
        for (int64_t g = 0; g < kGroups; g++) {
          tile_load<4>(x + g * p.tokens * 32, 64);
          tile_load<6>(w + g * 1024, 64);
          tile_load<7>(w + (kGroups + g) * 1024, 64);
          tile_dot_bf16<0, 4, 6>();
          tile_dot_bf16<1, 4, 7>();
        }
        tile_store<0>(out, kRows * 4);
        tile_store<1>(out + 16, kRows * 4);
      }
    }
  }
  tile_release();
}

// Steps [0, steps) of 32 tokens against two tiles, added to sums [4][16][16].
template <bool kStream, int kAhead, bool kFirst>
static void tile_square_part(const uint8_t* w, int64_t second, const char* x, int64_t steps,
                             float* sums) {
  if constexpr (kFirst) {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  } else {
    tile_load<0>(sums, 64);
    tile_load<1>(sums + 256, 64);
    tile_load<2>(sums + 512, 64);
    tile_load<3>(sums + 768, 64);
  }
  for (int64_t i = 0; i < steps; i++, x += kBlockStep, w += 1024) {
    tile_load<6>(w, 64);
    kStream ? tile_stream<4>(x, 64) : tile_load<4>(x, 64);
    tile_dot_bf16<0, 4, 6>();
    tile_load<7>(w + second, 64);
    tile_dot_bf16<1, 4, 7>();
    kStream ? tile_stream<5>(x + 1024, 64) : tile_load<5>(x + 1024, 64);
    if (kAhead > 0) {
      for (int line = 0; line < 32; line++) {
        __builtin_prefetch(x + kAhead * kBlockStep + line * 64, 0, 3);
      }
    }
    tile_dot_bf16<2, 5, 6>();
    tile_dot_bf16<3, 5, 7>();
  }
  tile_store<0>(sums, 64);
  tile_store<1>(sums + 256, 64);
  tile_store<2>(sums + 512, 64);
  tile_store<3>(sums + 768, 64);
}

// Expands kSteps steps of two tiles, meets all tokens, and so on to the end of the
// depth. kFetch: bytes of the packed weights to come are fetched meanwhile.
template <int kSteps, bool kStream, int kAhead, bool kFetch>
void amx_bf16_parts(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  tile_config(tile_shape(16, 64, 16));
  uint8_t* w = scratch.weights.data;
  float* sums = reinterpret_cast<float*>(w + 2 * kSteps * 1024);
  for (int64_t tile = begin; tile < end; tile += 2) {
    for (int64_t g = 0; g < kGroups; g += kSteps) {
      expand_bf16_512(p, tile, g, g + kSteps, w);
      expand_bf16_512(p, tile + 1, g, g + kSteps, w + kSteps * 1024);
      for (int64_t t = 0; t < p.tokens; t += 32) {
        if (kFetch) {
          const int64_t at =
              (tile * kGroups + g + (kSteps == kGroups ? 2 * kGroups : kSteps)) * 256;
          const int64_t lines = kSteps * 4 * 32 / p.tokens + 1;
          for (int64_t i = 0; i < lines; i++) {
            const int64_t byte = at + (t / 32 * lines + i) * 64;
            __builtin_prefetch(p.nibbles.data + byte, 0, 2);
            __builtin_prefetch(p.nibbles.data + byte + kGroups * 256, 0, 2);
          }
        }
        const char* x = reinterpret_cast<const char*>(p.blocks.data + (t * kGroups + g * 32) * 32);
        if (g == 0) {
          tile_square_part<kStream, kAhead, true>(w, kSteps * 1024, x, kSteps, sums + t * 32);
        } else {
          tile_square_part<kStream, kAhead, false>(w, kSteps * 1024, x, kSteps, sums + t * 32);
        }
      }
    }
    for (int64_t t = 0; t < p.tokens; t++) {
      const float* from = sums + t / 16 * 512 + t % 16 * 16;
      _mm512_storeu_ps(p.out.data + t * kRows + tile * 16, _mm512_load_ps(from));
      _mm512_storeu_ps(p.out.data + t * kRows + tile * 16 + 16, _mm512_load_ps(from + 256));
    }
  }
  tile_release();
}

// The dots of one group into register kSum and from there to memory. kTerms 0:
// two terms in one dot, [16 w, w] against [first, second].
template <int kSum, int kTerms>
TANDEM_INLINE void dot_group(const uint8_t* w, const int8_t* x, int32_t* sums) {
  if constexpr (kTerms == 2) {
    tile_zero<kSum>();
    tile_zero<kSum + 1>();
    tile_load<6>(w, 64);
    tile_load<4>(x, 64);
    tile_dot_bytes<kSum, 4, 6>();
    tile_load<5>(x + 32, 64);
    tile_dot_bytes<kSum + 1, 5, 6>();
    tile_store<kSum>(sums, 64);
    tile_store<kSum + 1>(sums + 256, 64);
  } else {
    constexpr int kOther = kSum / 2 % 2;  // operand registers, in turn
    tile_zero<kSum>();
    tile_load<6 + kOther>(w, 64);
    tile_load<4 + kOther>(x, kTerms == 1 ? 32 : 64);
    tile_dot_bytes<kSum, 4 + kOther, 6 + kOther>();
    tile_store<kSum>(sums, 64);
  }
}

template <int kTokens, int kTerms>
TANDEM_INLINE void drain_group(const Problem& p, int64_t tile, int64_t t0, int64_t g,
                               const int32_t* sums, __m512* acc) {
  const __m512 d = scale_of(p, tile, g), m = min_of(p, tile, g);
  const float* scale = (kTerms == 1 ? p.one_scale.data : p.two_scale.data) + g * p.tokens + t0;
  const float* sum = (kTerms == 1 ? p.one_sum.data : p.two_sum.data) + g * p.tokens + t0;
  TANDEM_UNROLL for (int t = 0; t < kTokens; t++) {
    __m512i total = load_512(sums + t * 16);
    if (kTerms == 2) {
      total = _mm512_add_epi32(_mm512_slli_epi32(total, 4), load_512(sums + 256 + t * 16));
    }
    acc[t] = drain_512(acc[t], total, d, m, scale[t], sum[t]);
    __asm__ volatile("" : "+v"(acc[t]));  // row by row, or compilers run out of registers
  }
}

// Dots of kBatch groups while as many before them are drained.
template <int kTokens, int kTerms, int kBatch>
static void amx_bytes_block(const Problem& p, const uint8_t* w, int64_t tile, int64_t t0,
                            int32_t* sums) {
  constexpr int64_t kStep = kTerms == 0 ? 1024 : 512;  // of weights
  constexpr int64_t kRow = kTerms == 1 ? 32 : 64;      // of a token
  constexpr int64_t kSums = kTerms == 2 ? 512 : 256;   // of a group
  const int8_t* x = (kTerms == 1 ? p.one.data : p.two.data) + t0 * kRow;
  const int64_t x_step = p.tokens * kRow;
  __m512 acc[kTokens];
  for (auto& a : acc) a = _mm512_setzero_ps();
  const auto dot = [&](int64_t first) __attribute__((always_inline)) {
    int32_t* to = sums + first / kBatch % 2 * kBatch * kSums;
    TANDEM_UNROLL for (int i = 0; i < kBatch; i += 2) {
      dot_group<0, kTerms>(w + (first + i) * kStep, x + (first + i) * x_step, to + i * kSums);
      if (i + 1 == kBatch) break;
      dot_group<2, kTerms>(w + (first + i + 1) * kStep, x + (first + i + 1) * x_step,
                           to + (i + 1) * kSums);
    }
  };
  static_assert(kGroups % kBatch == 0);
  dot(0);
  for (int64_t g = 0; g < kGroups; g += kBatch) {
    if (g + kBatch < kGroups) dot(g + kBatch);
    const int32_t* from = sums + g / kBatch % 2 * kBatch * kSums;
    for (int i = 0; i < kBatch; i++) {
      drain_group<kTokens, kTerms>(p, tile, t0, g + i, from + i * kSums, acc);
    }
  }
  for (int t = 0; t < kTokens; t++) {
    _mm512_storeu_ps(p.out.data + (t0 + t) * kRows + tile * 16, acc[t]);
  }
}

template <int kTokens, int kTerms, int kBatch>
void amx_bytes(const Problem& p, Scratch& scratch, int64_t begin, int64_t end) {
  tile_config(tile_shape(kTokens, kTerms == 0 ? 64 : 32, kTerms == 0 ? 16 : 8));
  for (int64_t tile = begin; tile < end; tile++) {
    expand_bytes_512<kTerms == 0 ? 2 : 1>(p, tile, scratch.weights.data);
    for (int64_t t = 0; t < p.tokens; t += kTokens) {
      amx_bytes_block<kTokens, kTerms, kBatch>(p, scratch.weights.data, tile, t, scratch.sums.data);
    }
  }
  tile_release();
}

}  // namespace
TANDEM_TARGET_END
