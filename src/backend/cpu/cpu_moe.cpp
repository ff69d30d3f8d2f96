// Mixtures of experts on the CPU: the step's tokens are grouped by expert, and each
// expert that has any runs as a gated MLP over them.
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/routing.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

struct CpuExperts final : WeightStorage {
  struct Expert {
    Weight gate_up, down;
  };
  std::vector<Expert> experts;
};

struct Routed {
  int64_t token = 0;
  float weight = 0;
};

// Row by row: to[i] = from[rows[i]].
void gather(const Activations& from, std::span<const Routed> rows, Activations& to) {
  for (size_t i = 0; i < rows.size(); i++) {
    std::memcpy(to.floats + static_cast<int64_t>(i) * to.cols,
                from.floats + rows[i].token * from.cols, sizeof(float) * to.cols);
  }
}

}  // namespace

Weight CpuBackend::load_experts(std::span<const StoredExpert> experts) {
  INVARIANT(!experts.empty());
  auto all = std::make_shared<CpuExperts>();
  for (const StoredExpert& expert : experts) {
    all->experts.push_back(
        {load_gate_up(expert.gate, expert.up, {}), load(std::span(&expert.down, 1), {})});
  }
  return {static_cast<int64_t>(experts.size()), experts[0].gate.cols, std::move(all)};
}

Tensor CpuBackend::moe(const Tensor& x, const MoeWeights& w, const MoeOptions& options,
                       const Tensor& residual) {
  const auto& experts = static_cast<const CpuExperts&>(*w.experts.storage).experts;
  const auto count = static_cast<int64_t>(experts.size());
  INVARIANT(w.router.rows == count && options.top_k >= 1 && options.top_k <= count);
  INVARIANT(residual.rows == x.rows && residual.cols == x.cols);
  const Tensor logits = linear(x, w.router, {}, 1.0f);
  std::span<const float> bias;
  if (w.router_bias) bias = static_cast<const CpuWeight&>(*w.router_bias.storage).vector;

  std::vector<std::vector<Routed>> tokens_of(experts.size());
  for (int64_t t = 0; t < x.rows; t++) {
    const std::span<const float> row(activations(logits).floats + t * count, count);
    for (const ChosenExpert& chosen : choose_experts(row, bias, options)) {
      tokens_of[chosen.expert].push_back({t, chosen.weight});
    }
  }

  Tensor out = make_tensor(x.rows, x.cols);
  std::memcpy(activations(out).floats, activations(residual).floats,
              sizeof(float) * x.rows * x.cols);
  for (size_t e = 0; e < experts.size(); e++) {
    const std::vector<Routed>& tokens = tokens_of[e];
    if (tokens.empty()) continue;
    const Tensor own = make_tensor(static_cast<int64_t>(tokens.size()), x.cols);
    gather(activations(x), tokens, activations(own));
    const Tensor y =
        linear(gate_up(own, experts[e].gate_up, options.activation), experts[e].down, {}, 1.0f);
    for (size_t i = 0; i < tokens.size(); i++) {
      float* sum = activations(out).floats + tokens[i].token * x.cols;
      const float* value = activations(y).floats + static_cast<int64_t>(i) * x.cols;
      for (int64_t c = 0; c < x.cols; c++) sum[c] += tokens[i].weight * value[c];
    }
  }
  return out;
}

}  // namespace tandem::cpu
