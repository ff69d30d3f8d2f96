// What bodies on tile registers share: rounding to bf16, and the registers, the
// machine's or emulated. docs/adr/0007-number-formats-on-cpu.md says what for.

// --- To bf16 -----------------------------------------------------------------

#if defined(TANDEM_SIMD_AVX512)

// The bits of 16 floats plus half of what bf16 leaves away.
TANDEM_INLINE I rounded_bits(F a) {
  return _mm512_add_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(0x8000));
}
TANDEM_INLINE void store_bf16(uint16_t* out, F a) {
  const I bits = _mm512_mask_mov_epi32(rounded_bits(a), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q),
                                       _mm512_set1_epi32(0x7fc00000));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out),
                     _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}
// [16][2] from the two columns of 16 rows.
TANDEM_INLINE void store_bf16_pairs(uint16_t* out, F first, F second) {
  const I top = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const I low = _mm512_srli_epi32(rounded_bits(first), 16);
  _mm512_store_si512(out, _mm512_ternarylogic_epi32(rounded_bits(second), top, low, 0xea));
}
// Byte kByte of each quad.
template <int kByte>
TANDEM_INLINE F column_of(U quad) {
  const I code = kByte > 0 ? _mm512_srli_epi32(quad, 8 * kByte) : quad;
  return _mm512_cvtepi32_ps(kByte == 3 ? code : _mm512_and_si512(code, _mm512_set1_epi32(255)));
}

#else

TANDEM_INLINE uint16_t to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return static_cast<uint16_t>(x != x ? 0x7fc0 : (bits + 0x8000) >> 16);
}
TANDEM_INLINE void store_bf16(uint16_t* out, F a) {
  float lanes[16];
  f_store(lanes, a);
  for (int i = 0; i < 16; i++) out[i] = to_bf16(lanes[i]);
}
TANDEM_INLINE void store_bf16_pairs(uint16_t* out, F first, F second) {
  uint16_t pairs[2][16];
  store_bf16(pairs[0], first);
  store_bf16(pairs[1], second);
  for (int i = 0; i < 32; i++) out[i] = pairs[i % 2][i / 2];
}
template <int kByte>
TANDEM_INLINE F column_of(U quad) {
  uint8_t bytes[64];
  memcpy(bytes, &quad, sizeof bytes);
  float lanes[16];
  for (int i = 0; i < 16; i++) lanes[i] = bytes[4 * i + kByte];
  return f_load(lanes);
}

#endif

// --- Tiles -------------------------------------------------------------------

// Eight registers of 16 rows of 64 bytes in memory, with the arithmetic that the
// instructions are defined by.
struct EmulatedTiles {
  alignas(64) uint8_t bytes[8][16][64];

  void configure() {}
  void release() {}
  template <int kTile>
  void zero() {
    memset(bytes[kTile], 0, sizeof bytes[kTile]);
  }
  template <int kTile>
  void load(const void* p, int64_t stride) {
    for (int row = 0; row < 16; row++) {
      memcpy(bytes[kTile][row], static_cast<const uint8_t*>(p) + row * stride, 64);
    }
  }
  template <int kTile>
  void stream(const void* p, int64_t stride) {
    load<kTile>(p, stride);
  }
  template <int kTile>
  void store(void* p, int64_t stride) {
    for (int row = 0; row < 16; row++) {
      memcpy(static_cast<uint8_t*>(p) + row * stride, bytes[kTile][row], 64);
    }
  }
  template <int kSum, int kA, int kB>
  void dot_bf16() {
    float b[2][16][16];
    for (int pair = 0; pair < 16; pair++) {
      for (int lane = 0; lane < 32; lane++) b[lane % 2][pair][lane / 2] = value<kB>(pair, lane);
    }
    for (int row = 0; row < 16; row++) {
      F even = f_zero();
      F odd = f_zero();
      for (int pair = 0; pair < 16; pair++) {
        even = flush(f_fma(f_set(value<kA>(row, 2 * pair)), f_load(b[0][pair]), even));
        odd = flush(f_fma(f_set(value<kA>(row, 2 * pair + 1)), f_load(b[1][pair]), odd));
      }
      float* sums = reinterpret_cast<float*>(bytes[kSum][row]);
      f_store(sums, flush(f_add(flush(f_load(sums)), flush(f_add(even, odd)))));
    }
  }

 private:
  // Denormals as zeros of their sign.
  static F flush(F a) {
    return f_select_less(f_abs(a), f_set(1.17549435e-38f), f_mul(a, f_zero()), a);
  }
  template <int kTile>
  float value(int row, int index) const {
    uint16_t half;
    memcpy(&half, bytes[kTile][row] + 2 * index, 2);
    if ((half & 0x7f80) == 0) half &= 0x8000;
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
  }
};

#if defined(TANDEM_SIMD_AVX512)
struct MachineTiles {
  void configure() {
    amx::TileConfig config;
    for (int tile = 0; tile < 8; tile++) config.set(tile, 16, 64);
    amx::tile_config(config);
  }
  void release() { amx::tile_release(); }
  template <int kTile>
  void zero() {
    amx::tile_zero<kTile>();
  }
  template <int kTile>
  void load(const void* p, int64_t stride) {
    amx::tile_load<kTile>(p, stride);
  }
  template <int kTile>
  void stream(const void* p, int64_t stride) {
    amx::tile_stream<kTile>(p, stride);
  }
  template <int kTile>
  void store(void* p, int64_t stride) {
    amx::tile_store<kTile>(p, stride);
  }
  template <int kSum, int kA, int kB>
  void dot_bf16() {
    amx::tile_dot_bf16<kSum, kA, kB>();
  }
};
#endif
