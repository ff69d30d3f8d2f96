// Gated delta-net with its projections. Source: Gated DeltaNet, arXiv:2412.06464.
#pragma once

#include "backend/backend.h"

namespace tandem {

struct GatedDeltaNet {
  Weight in;   // [C + Hv (Dv + 2), D]: q, k, v, z, b, a as in Backend::gated_delta
  Weight out;  // [D, Hv Dv]
  GatedDeltaWeights weights;
  GatedDeltaOptions options;
  KvRef state;

  // x and residual [n, D].
  Tensor forward(Backend& be, const Tensor& x, const Tensor& residual, const Step& step) const {
    const Tensor y = be.gated_delta(be.linear(x, in), weights, options, state, step);
    return be.linear(y, out, residual);
  }
};

}  // namespace tandem
