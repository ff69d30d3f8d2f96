// Mixtures of experts in stock ops.
#pragma once

#include <optional>
#include <span>

#include "backend/backend.h"
#include "backend/mlx/weights.h"

namespace tandem::mlx_backend {

// The experts' matrices stacked, in one format each.
struct MlxExperts : WeightStorage {
  int experts = 0;
  MlxWeight gate, up, down;

  int64_t bytes() const { return gate.bytes() + up.bytes() + down.bytes(); }
};

// Throws Error(kUnsupported) where the experts of one layer differ in format.
Weight load_experts(std::span<const StoredExpert> experts, const Numerics& numerics);
const MlxExperts& expert_storage(const Weight& weight);

// Each token's experts, int32 [n, top_k] ascending, and their weights, f32 [n, top_k].
struct Choice {
  mx::array experts, weights;
};
Choice choose(const mx::array& logits, const std::optional<mx::array>& bias,
              const MoeOptions& options);

// x f32 [n, D] by each token's experts: f32 [n, top_k, rows of one expert]. x may
// also be [n, top_k, D], one input an expert.
mx::array multiply_chosen(const mx::array& x, const MlxWeight& weight, int experts,
                          const mx::array& chosen, const Numerics& numerics);

}  // namespace tandem::mlx_backend
