// Feed-forward by a mixture of experts, or by one gated MLP.
#pragma once

#include <optional>

#include "nn/mlp.h"

namespace tandem {

struct ExpertMixture {
  MoeWeights weights;
  MoeOptions options;
  std::optional<GatedMlp> shared;  // sees every token
  Weight shared_gate;              // [1, D] sigmoid factor of what it adds; empty = none

  // residual + chosen experts + shared expert. x and residual [n, D].
  Tensor forward(Backend& be, const Tensor& x, const Tensor& residual) const {
    const Tensor y = be.moe(x, weights, options, residual);
    if (!shared) return y;
    if (!shared_gate) return shared->forward(be, x, y);
    const Tensor factor = be.linear_act(x, shared_gate, Activation::kSigmoid);
    return be.add(y, be.multiply(shared->forward(be, x, {}), factor));
  }
};

// One of the two.
struct FeedForward {
  GatedMlp mlp;
  std::optional<ExpertMixture> mixture;

  Tensor forward(Backend& be, const Tensor& x, const Tensor& residual) const {
    return mixture ? mixture->forward(be, x, residual) : mlp.forward(be, x, residual);
  }
};

}  // namespace tandem
