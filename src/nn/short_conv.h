// A gated short convolution with its projections. Source: LFM2, arXiv:2511.23404.
#pragma once

#include "backend/backend.h"

namespace tandem {

struct ShortConv {
  Weight in;    // [3 D, D]
  Weight taps;  // [1, width * D]
  Weight out;   // [D, D]
  int width = 0;
  KvRef state;

  // x and residual [n, D].
  Tensor forward(Backend& be, const Tensor& x, const Tensor& residual, const Step& step) const {
    return be.linear(be.short_conv(be.linear(x, in), taps, width, state, step), out, residual);
  }
};

}  // namespace tandem
