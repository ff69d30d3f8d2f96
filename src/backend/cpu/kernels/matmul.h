// y = x W^T for a ragged list of tokens against packed tiles, with everything
// that follows a projection done while the sums are in registers.
//
// Quantised tiles against integer codes, for each output, groups ascending:
//   acc = fma(float(sum_i code_w code_x), scale_w * scale_x, acc)
//   acc = fma(min_w, scale_x * float(sum_i code_x), acc)       has_min only
// Dense tiles, and all tiles in exact mode, against floats, columns ascending:
//   acc = fma(w, x, acc)
// The order never depends on how many tokens there are, nor on the instruction
// set, so every path gives the same bits.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/tile.h"

namespace tandem::cpu {

// Activations as integers: x = scale * code, one scale for 32 columns. Group by
// group, so that the same columns of neighbouring tokens are neighbours; `stride`
// is the number of tokens or one more, to spread groups over the cache's sets.
struct QuantView {
  const int16_t* codes = nullptr;     // [K / 32, stride, 32], a quad's columns as 0 2 1 3
  const float* scale = nullptr;       // [K / 32, stride]
  const float* scaled_sum = nullptr;  // [K / 32, stride] scale * float(sum of codes)
  const int32_t* sum = nullptr;       // [K / 32, stride, 2] sums of 16 codes
  // Where the kernel has byte dots, for few tokens or one term, the same codes as
  // signed bytes: [K / 32, stride, terms, 32], code = 128 * first + second.
  const int8_t* bytes = nullptr;
  int terms = 0;  // 1 (fast) or 2 (high)
  int64_t stride = 0;
};

// Two tiles computed together. rows[1] = 0: there is no second.
struct MatmulUnit {
  const TileFormat* format[2] = {};
  const uint8_t* tile[2] = {};
  int64_t first_row[2] = {};
  int rows[2] = {};
};

struct Epilogue {
  float* out = nullptr;  // [n, stride]
  int64_t stride = 0;
  const float* bias = nullptr;      // [rows]
  const float* residual = nullptr;  // [n, stride]
  float scale = 1.0f;
  float softcap = 0;  // 0 = none
  bool has_activation = false;
  bool gated = false;  // out = act(first tile) * second tile
  Activation activation = Activation::kSilu;
};

struct MatmulArgs {
  const MatmulUnit* units = nullptr;
  int64_t columns = 0;
  bool exact = false;
  const float* floats = nullptr;  // [n, K], for dense units and exact mode
  QuantView quant;                // for the others
  Epilogue epilogue;
};

// Tokens that one call may be given, and what a worker needs beside its stack.
inline constexpr int kMatmulTokens = 192;
inline constexpr int kBlockColumns = 256;    // expanded at once
inline constexpr int kStreamColumns = 1024;  // whose scales are expanded at once
struct alignas(64) MatmulScratch {
  float weights[2][kBlockColumns * kTileRows];  // floats, or int16 pairs
  float scales[2][kStreamColumns / 16 * kTileRows];
  float mins[2][kStreamColumns / 32 * kTileRows];
  float sums[kMatmulTokens * 2 * kTileRows];
};

// Units [unit_begin, unit_end) for tokens [token_begin, token_end), at most
// kMatmulTokens of them.
using MatmulKernel = void (*)(const MatmulArgs& args, int64_t unit_begin, int64_t unit_end,
                              int64_t token_begin, int64_t token_end, MatmulScratch& scratch);
MatmulKernel matmul_kernel(Isa isa);

// Tokens from which on weights are expanded into the cache first.
inline constexpr int64_t kFewTokensLimit = 8;
// Whether the kernel wants QuantView::bytes: AVX-512 VNNI multiplies twice as many
// bytes as int16s at once, so for one term always, and for two where no expanded
// int16 weights are at hand.
constexpr bool wants_bytes(Isa isa, int terms, int64_t tokens) {
  return isa == Isa::kAvx512 && (terms == 1 || tokens < kFewTokensLimit);
}

}  // namespace tandem::cpu
