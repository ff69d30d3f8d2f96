// y = x W^T for tokens of prompts on machines with tile registers (AMX): weights are
// expanded to bf16 once for a block of tokens, activations once for a layer, and
// tiles of both multiplied without a scale in between. Generated tokens keep to
// matmul.h: docs/adr/0007-number-formats-on-cpu.md says why.
//
// For each output, 32 columns after the other:
//   even = odd = 0; for two columns after the other:
//     even = fma(w, x, even) of the first, odd = fma(w, x, odd) of the second
//   acc = acc + (even + odd)
// where w is fma(scale, code - zero, min), or the dense weight, w and x are rounded
// to bf16 (to the nearest, ties away from zero), and denormals are 0 everywhere.
// The order never depends on how many tokens there are.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/matmul.h"
#include "backend/cpu/tile.h"

namespace tandem::cpu {

inline constexpr int kPromptBlock = 32;    // tokens met at once
inline constexpr int kPromptTokens = 512;  // that one call may be given
inline constexpr int kPromptGroups = 18;   // of 32 columns, expanded at once

// bf16 values of n prompt tokens with K columns.
constexpr int64_t prompt_values(int64_t n, int64_t columns) {
  return (n + kPromptBlock - 1) / kPromptBlock * kPromptBlock *
         ((columns + kGroupColumns - 1) / kGroupColumns * kGroupColumns);
}

// Floats to the operand of tiles: [block of 32 tokens][group of 32 columns][32][32],
// zeros past the last column and the last token.
struct PromptRowsArgs {
  const float* x = nullptr;  // [any, K]
  int64_t columns = 0;
  const int32_t* rows = nullptr;  // [n] of x
  int64_t count = 0;              // n
  uint16_t* out = nullptr;        // [prompt_values(n, K)]
};

struct PromptMatmulArgs {
  const MatmulUnit* units = nullptr;
  int64_t columns = 0;
  const uint16_t* x = nullptr;    // what PromptRowsArgs made
  const int32_t* rows = nullptr;  // [n] of the output and the residual
  Epilogue epilogue;
};

// What a worker needs beside its stack.
struct alignas(64) PromptScratch {
  uint16_t weights[2][kPromptGroups * kGroupColumns * kTileRows];  // [group][16 pairs][16][2]
  float scales[kPromptGroups * 2 * kTileRows];
  float mins[kPromptGroups * kTileRows];
  float sums[kPromptTokens * 2 * kTileRows];
};

struct PromptKernels {
  // Blocks [begin, end) of 32 tokens.
  void (*to_tiles)(const PromptRowsArgs& args, int64_t begin, int64_t end) = nullptr;
  // Units [unit_begin, unit_end) for tokens [token_begin, token_end), at most
  // kPromptTokens of them; token_begin a multiple of 32.
  void (*matmul)(const PromptMatmulArgs& args, int64_t unit_begin, int64_t unit_end,
                 int64_t token_begin, int64_t token_end, PromptScratch& scratch) = nullptr;

  explicit operator bool() const { return matmul != nullptr; }
};
// Empty where the instruction set has no tiles.
PromptKernels prompt_kernels(Isa isa);

}  // namespace tandem::cpu
