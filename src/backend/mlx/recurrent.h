// Layers with a state in stock ops: token by token, the step's rows side by side.
#pragma once

#include <map>
#include <vector>

#include "backend/backend.h"
#include "backend/mlx/state_pool.h"

namespace tandem::mlx_backend {

// The step's rows that have tokens, the longest first: in wave i, rows
// [0, active[i]) each take their i-th token.
struct Waves {
  mx::array slots;                  // int32 [rows]
  std::vector<int> active{};        // rows of each wave, descending
  std::vector<mx::array> tokens{};  // int32 [active] of each wave
  mx::array order;                  // int32 [n], place of each token in the joined waves
};

// Where each token's conv inputs lie in the rows' kept inputs followed by the
// step's tokens, for one width.
struct ConvPlan {
  mx::array slots;                // int32 [rows of the step]
  std::vector<mx::array> taps{};  // int32 [n] of each tap, the oldest first
  mx::array kept;                 // int32 [rows * (width - 1)], for the step after
};

Waves plan_waves(const Step& step);
ConvPlan plan_conv(const Step& step, int width);

// taps [W * C]; x f32 [n, C] -> [n, C]
mx::array causal_conv(const mx::array& x, const mx::array& taps, const ConvPlan& plan,
                      MlxStateStore& store, int layer);

struct DeltaWeights {
  mx::array decay, bias, out_norm;
};

// qkv [n, C] after the convolution, rest [n, z b a] -> [n, Hv * Dv]
mx::array gated_delta(const mx::array& qkv, const mx::array& rest, const DeltaWeights& w,
                      const GatedDeltaOptions& options, const Waves& waves, MlxStateStore& store,
                      int layer);

}  // namespace tandem::mlx_backend
