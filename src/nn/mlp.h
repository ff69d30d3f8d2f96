// Feed-forward with a gate. Source: GLU Variants Improve Transformer, arXiv:2002.05202.
#pragma once

#include "backend/backend.h"

namespace tandem {

struct GatedMlp {
  Weight gate_up;  // of Backend::load_gate_up, two of [F, D]
  Weight down;     // [D, F]
  Activation activation = Activation::kSilu;

  // residual + (act(x Wg^T) * (x Wu^T)) Wd^T. x and residual [n, D].
  Tensor forward(Backend& be, const Tensor& x, const Tensor& residual) const {
    return be.linear(be.gate_up(x, gate_up, activation), down, residual);
  }
};

}  // namespace tandem
