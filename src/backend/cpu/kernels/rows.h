// Ops that treat every token by itself: quantising, norms, elementwise maths,
// and the end of a q/k/v projection. All take tokens [begin, end).
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/pages.h"

namespace tandem::cpu {

// Floats [n, K] to integer codes (matmul.h, QuantView), K a multiple of 32.
// scale = max |x| / limit of 32 columns, code = x / scale to the nearest. A group
// that holds NaN or infinity gets scale NaN.
struct QuantizeArgs {
  const float* x = nullptr;
  int64_t columns = 0;
  int limit = 0;  // largest code: 16256 (high) or 127 (fast)
  int64_t stride = 0;
  int16_t* codes = nullptr;  // null where bytes are wanted
  int8_t* bytes = nullptr;
  int terms = 0;
  float* scale = nullptr;
  float* scaled_sum = nullptr;
  int32_t* sum = nullptr;
};

struct NormArgs {
  const float* x = nullptr;
  float* out = nullptr;  // may be x
  int64_t columns = 0;
  const float* weight = nullptr;  // null = ones
  const float* bias = nullptr;    // null = zeros
  float eps = 0;
  bool layer_norm = false;
};

// out = op(a, b) over flat elements [begin, end).
enum class Elementwise : uint8_t { kAdd, kMultiply, kScale, kActivate };
struct ElementwiseArgs {
  Elementwise op = Elementwise::kAdd;
  const float* a = nullptr;
  const float* b = nullptr;
  float factor = 1;
  Activation activation = Activation::kSilu;
  float* out = nullptr;
};

// Projected rows [q heads | k heads | v heads] to q and to the pages.
struct QkvArgs {
  const QkvOptions* options = nullptr;
  const float* qkv = nullptr;  // [n, stride]
  int64_t stride = 0;
  const float* q_norm = nullptr;  // null = none
  const float* k_norm = nullptr;
  bool q_norm_whole = false;  // over all heads at once
  bool k_norm_whole = false;
  const float* cos = nullptr;  // [n, dims / 2]; null = no rotation
  const float* sin = nullptr;
  int64_t rope_half = 0;
  KvLayer kv;
  const int32_t* page = nullptr;      // [n] the page of each token
  const int32_t* position = nullptr;  // [n] its position in its row
  float* q = nullptr;                 // [n, heads * head_dim]
};

struct RowKernels {
  void (*quantize)(const QuantizeArgs&, int64_t begin, int64_t end);
  void (*norm)(const NormArgs&, int64_t begin, int64_t end);
  void (*elementwise)(const ElementwiseArgs&, int64_t begin, int64_t end);
  // scratch: floats of the calling worker, a row of q, k and v
  void (*finish_qkv)(const QkvArgs&, int64_t begin, int64_t end, float* scratch);
};
RowKernels row_kernels(Isa isa);

}  // namespace tandem::cpu
