// The op interface between model families and devices.
//
// Ops are in the model's own words and large enough to fuse: a family never
// splits what a backend may want to do at once, and never adds tensors itself.
// A backend overrides what it can do; an op it has not raises
// Error(kUnsupported) naming op and backend, except those that are composed here
// from simpler ones. All calls come from the engine thread.
//
// Shapes: n tokens of the step, D model width, H query heads, Hkv key/value
// heads, L layers, V vocabulary. Activations are Tensor [n, width].
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/kv_store.h"
#include "backend/step.h"
#include "backend/stored.h"
#include "backend/tensor.h"

namespace tandem {

// exact: f32 activations. high: bf16-class or better. fast: int8 activations.
enum class Precision : uint8_t { kExact, kHigh, kFast };

const char* precision_name(Precision precision);

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu2 };

struct BackendOptions {
  Precision precision = Precision::kHigh;
  int threads = 0;  // 0 = physical cores
};

struct NormOptions {
  float eps = 1e-5f;
  bool layer_norm = false;  // subtract the mean; `bias` may be given
  // How the result is used. For a linear layer the backend may give integer
  // codes in place of floats; keep_floats asks for the floats as well.
  bool for_linear = true;
  bool keep_floats = false;
};

// Rotary position embedding. Source: RoFormer, arXiv:2104.09864. All scaling
// schemes (linear, llama3, yarn, longrope) come down to frequencies: nn/rope.
struct Rope {
  std::vector<float> inv_freq;  // [rotated dims / 2]; empty = no rotation
  float cos_sin_scale = 1.0f;   // yarn and longrope multiply cos and sin
  bool interleaved = false;     // pairs (2i, 2i+1) in place of (i, i + dims/2)
};

// How a fused q/k/v projection is cut, normalised, rotated and written.
struct QkvOptions {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;            // q and k
  int v_dim = 0;               // per head
  bool k_is_v = false;         // the weight has no v rows: v = k before norm and rope
  const Rope* rope = nullptr;  // null = NoPE
  Weight q_norm;               // [1, head_dim] or [1, H * head_dim]; empty = none
  Weight k_norm;
  bool v_norm = false;  // RMS norm of v without weight
  float norm_eps = 1e-6f;
};

struct AttentionOptions {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int v_dim = 0;
  float scale = 0;
  int window = 0;     // each token sees the last `window` keys, 0 = all
  float softcap = 0;  // cap * tanh(score / cap), 0 = none
  Weight sinks;       // [1, H] extra logit per head; empty = none
};

struct MoeWeights {
  Weight router;       // [E, D]
  Weight router_bias;  // [1, E] added for the choice only; empty = none
  Weight gate_up;      // [E * 2F, D], experts in order
  Weight down;         // [E * D, F]
};

struct MoeOptions {
  int experts = 0;
  int top_k = 0;
  Activation activation = Activation::kSilu;
  bool sigmoid_scores = false;   // else softmax
  bool normalize_scores = true;  // over the chosen experts
  float score_scale = 1.0f;
};

// Gated delta rule. Source: Gated DeltaNet, arXiv:2412.06464.
struct GatedDeltaOptions {
  int k_heads = 0, v_heads = 0, k_dim = 0, v_dim = 0, conv_width = 0;
  float norm_eps = 1e-6f;
};

// Multi-head latent attention, absorbed form. Source: DeepSeek-V2, arXiv:2405.04434.
struct LatentOptions {
  int heads = 0, rank = 0, rope_dim = 0, nope_dim = 0, v_dim = 0;
  float scale = 0;
  const Rope* rope = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;    // "cpu", "mlx"
  virtual std::string device() const = 0;  // for people: ISA or device name
  virtual Precision precision() const = 0;

  // --- Loading -------------------------------------------------------------
  // One weight from parts stacked along the rows (q, k and v, each in its own
  // format). `bias` has as many elements as all rows, or none.
  virtual Weight load(std::span<const StoredMatrix> parts, std::span<const float> bias = {}) = 0;
  // Gate and up for gate_up(), both [F, D]; bias [2F] or none, gate first.
  virtual Weight load_gate_up(const StoredMatrix& gate, const StoredMatrix& up,
                              std::span<const float> bias = {}) = 0;
  // A vector of floats, e.g. a norm's weight. [1, size]
  virtual Weight load_vector(std::span<const float> values) = 0;
  virtual int64_t weight_bytes() const = 0;

  virtual std::unique_ptr<KvStore> make_kv_store(const KvSpec& spec) = 0;
  virtual std::unique_ptr<StateStore> make_state_store(const StateSpec& spec);

  // --- A step --------------------------------------------------------------
  // Forgets the tensors of the step before.
  virtual void begin_step(const Step& step) = 0;

  // Rows of the table for the step's tokens (or their media embeddings), times scale.
  virtual Tensor embed(const Weight& table, float scale, const Step& step) = 0;

  // y = x / rms(x) * w, or layer norm. Gemma's (1 + w) is folded in at load.
  virtual Tensor norm(const Tensor& x, const Weight& w, const NormOptions& options,
                      const Weight& bias = {}) = 0;

  // y = x W^T + b (+ residual) (scaled: residual + scale * (...)).
  virtual Tensor linear(const Tensor& x, const Weight& w, const Tensor& residual = {},
                        float scale = 1.0f) = 0;

  // Projects, normalises, rotates; writes k and v into the pages of the step's
  // tokens; returns q [n, H * head_dim].
  virtual Tensor qkv_rope_write(const Tensor& x, const Weight& w, const QkvOptions& options,
                                KvRef kv, const Step& step) = 0;

  // o = softmax(q k^T scale) v over each token's row, keys and values read from
  // pages only. Causal, but for both_ways spans. Returns [n, H * v_dim].
  // Source: PagedAttention, arXiv:2309.06180.
  virtual Tensor attention(const Tensor& q, KvRef kv, const AttentionOptions& options,
                           const Step& step) = 0;

  // act(x Wg^T) * (x Wu^T), with the weight of load_gate_up. [n, F]
  virtual Tensor gate_up(const Tensor& x, const Weight& w, Activation activation) = 0;

  // act(x W^T + b). [n, F]
  virtual Tensor linear_act(const Tensor& x, const Weight& w, Activation activation);

  // Sum over the chosen experts in ascending id, plus residual.
  virtual Tensor moe(const Tensor& x, const MoeWeights& w, const MoeOptions& options,
                     const Tensor& residual);

  // Recurrent layers: token by token within a row, state in `states[ref.group]`.
  virtual Tensor gated_delta(const Tensor& x, const Weight& in, const Weight& conv,
                             const Weight& decay, const Weight& out_norm,
                             const GatedDeltaOptions& options, KvRef ref, const Step& step);
  virtual Tensor short_conv(const Tensor& x, const Weight& conv, KvRef ref, const Step& step);

  // Writes the compressed latent of the step's tokens and attends over it.
  virtual Tensor latent_attention(const Tensor& q, const Tensor& latent, const Weight& key_up,
                                  const Weight& value_up, const LatentOptions& options, KvRef kv,
                                  const Step& step);

  // Small ops for what the large ones do not cover.
  virtual Tensor add(const Tensor& a, const Tensor& b) = 0;
  virtual Tensor multiply(const Tensor& a, const Tensor& b) = 0;
  virtual Tensor scale(const Tensor& x, float factor) = 0;
  virtual Tensor activate(const Tensor& x, Activation activation) = 0;
  virtual Tensor columns(const Tensor& x, int64_t begin, int64_t end) = 0;  // x[:, begin:end]

  // Picks the step's output tokens: [outputs, D].
  virtual Tensor select_outputs(const Tensor& x, const Step& step) = 0;

  // Logits [rows of x, V] as floats: x W^T * scale, then softcap if not 0.
  virtual Tensor head(const Tensor& x, const Weight& w, float scale, float softcap) = 0;

  // Across devices; the identity on one.
  virtual Tensor all_reduce(const Tensor& x) { return x; }

  // --- Results -------------------------------------------------------------
  // Floats of a tensor, row-major [rows, cols]. Waits for a lazy backend. Valid
  // until the next begin_step.
  virtual std::span<const float> read(const Tensor& x) = 0;

 protected:
  // For ops that this backend has not.
  [[noreturn]] void unsupported(const char* op) const;
};

// One factory a backend folder; cli links those that are built in.
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options);
std::unique_ptr<Backend> make_mlx_backend(const BackendOptions& options);

}  // namespace tandem
