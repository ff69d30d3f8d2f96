// The lazy backend: ops build MLX graphs, read() evaluates them.
//
// Activations are f32 between ops. Tensor::data points at an mx::array in the
// arena of the step. Engine thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "backend/backend.h"
#include "backend/mlx/attention.h"
#include "backend/mlx/kv_pool.h"
#include "backend/mlx/numerics.h"
#include "backend/mlx/recurrent.h"
#include "backend/mlx/rotary.h"
#include "backend/mlx/weights.h"

namespace tandem::mlx_backend {

class MlxBackend : public Backend {
 public:
  MlxBackend(Precision precision, const Numerics& numerics);

  const char* name() const override { return "mlx"; }
  std::string device() const override;
  Precision precision() const override { return precision_; }

  Weight load(std::span<const StoredMatrix> parts, std::span<const float> bias) override;
  Weight load_gate_up(const StoredMatrix& gate, const StoredMatrix& up,
                      std::span<const float> bias) override;
  Weight load_experts(std::span<const StoredExpert> experts) override;
  Weight load_heads(std::span<const StoredMatrix> heads) override;
  Weight load_vector(std::span<const float> values) override;
  int64_t weight_bytes() const override { return weight_bytes_; }
  std::unique_ptr<KvStore> make_kv_store(const KvSpec& spec) override;
  std::unique_ptr<StateStore> make_state_store(const StateSpec& spec) override;

  // Evaluates writes of the step before that nobody read.
  void begin_step(const Step& step) override;

  Tensor embed(const Weight& table, float scale, const Step& step) override;
  Tensor norm(const Tensor& x, const Weight& w, const NormOptions& options,
              const Weight& bias) override;
  Tensor linear(const Tensor& x, const Weight& w, const Tensor& residual, float scale) override;
  Tensor qkv_rope_write(const Tensor& x, const Weight& w, const QkvOptions& options, KvRef kv,
                        const Step& step) override;
  Tensor attention(const Tensor& q, KvRef kv, const AttentionOptions& options,
                   const Step& step) override;
  Tensor gate_up(const Tensor& x, const Weight& w, Activation activation) override;
  Tensor moe(const Tensor& x, const MoeWeights& w, const MoeOptions& options,
             const Tensor& residual) override;
  Tensor gated_delta(const Tensor& x, const GatedDeltaWeights& w, const GatedDeltaOptions& options,
                     KvRef ref, const Step& step) override;
  Tensor short_conv(const Tensor& x, const Weight& taps, int width, KvRef ref,
                    const Step& step) override;
  Tensor latent_attention(const Tensor& q, const Tensor& latent, const LatentWeights& w,
                          const LatentOptions& options, KvRef kv, const Step& step) override;
  Tensor add(const Tensor& a, const Tensor& b) override;
  Tensor multiply(const Tensor& a, const Tensor& b) override;
  Tensor scale(const Tensor& x, float factor) override;
  Tensor activate(const Tensor& x, Activation activation) override;
  Tensor columns(const Tensor& x, int64_t begin, int64_t end) override;
  Tensor select_outputs(const Tensor& x, const Step& step) override;
  Tensor head(const Tensor& x, const Weight& w, float scale, float softcap) override;
  std::span<const float> read(const Tensor& x) override;

 private:
  Tensor keep(mx::array array);  // into the arena
  mx::array product(const Tensor& x, const Weight& w) const;
  Weight counted(Weight weight);
  const RotaryTable& rotary(const Rope& rope, const Step& step);
  const std::vector<WritePlan>& writes(int group, const Step& step);
  // Writes k [n, Hkv, Dk] and v [n, Hkv, Dv] of the step's tokens to their pages.
  void write_kv(const mx::array& k, const mx::array& v, KvRef kv, const Step& step);
  const AttentionPlan& reads(int group, int window, const Step& step);
  const Waves& waves(const Step& step);
  const ConvPlan& conv_plan(int width, const Step& step);
  void flush(std::vector<mx::array> with);  // evaluates these and all pending writes

  Precision precision_;
  Numerics numerics_;
  int64_t weight_bytes_ = 0;
  std::shared_ptr<LiveStores> live_ = std::make_shared<LiveStores>();
  std::shared_ptr<LiveStates> live_states_ = std::make_shared<LiveStates>();

  // Of the step
  std::deque<mx::array> arena_;
  std::map<const Rope*, RotaryTable> rotary_;
  std::map<int, std::vector<WritePlan>> writes_;
  std::map<std::pair<int, int>, AttentionPlan> reads_;
  std::optional<Waves> waves_;
  std::map<int, ConvPlan> conv_plans_;
};

}  // namespace tandem::mlx_backend
