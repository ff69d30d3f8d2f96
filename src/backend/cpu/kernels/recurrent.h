// Layers with a state: short causal convolutions and the gated delta rule.
// Source: Gated DeltaNet, arXiv:2412.06464.
//
// Both run token by token in an order that knows nothing of the step, so a row's
// result is the same in any batch and in chunks of any length.
#pragma once

#include <cstdint>

#include "backend/cpu/isa.h"

namespace tandem::cpu {

// One token of a convolution of `width` taps over each channel by itself:
// out = sum over j of taps[j] * inputs[j], oldest first, then silu if asked for.
struct ConvArgs {
  const float* taps = nullptr;  // [width, channels]
  int64_t width = 0;
  int64_t channels = 0;
  bool silu = false;
};

// One head of one row over its tokens. q and k are normalised to length 1 (and q
// scaled by 1 / sqrt(k_dim)), then for each token
//   S *= decay;  d = beta (v - S^T k);  S += k d^T;  o = S^T q
// and out = o / rms(o) * norm * silu(z).
struct DeltaArgs {
  int64_t tokens = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  const float* q = nullptr;  // of the first token; the next `stride` floats on
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t stride = 0;
  const float* z = nullptr;
  int64_t z_stride = 0;
  const float* decay = nullptr;  // the next `gate_stride` floats on
  const float* beta = nullptr;
  int64_t gate_stride = 0;
  const float* norm = nullptr;  // [v_dim]
  float norm_eps = 0;
  float* state = nullptr;  // [k_dim, v_dim]
  float* out = nullptr;    // the next `out_stride` floats on
  int64_t out_stride = 0;
};

// Floats a worker needs as scratch.
constexpr int64_t delta_scratch_floats(int64_t k_dim) { return 2 * (k_dim + 16); }

struct RecurrentKernels {
  void (*conv)(const ConvArgs&, const float* const* inputs, float* out);
  void (*delta)(const DeltaArgs&, float* scratch);
};
RecurrentKernels recurrent_kernels(Isa isa);

}  // namespace tandem::cpu
