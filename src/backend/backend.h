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

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu2, kSigmoid };

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

// One expert of a mixture as stored: a gated MLP.
struct StoredExpert {
  StoredMatrix gate;  // [F, D]
  StoredMatrix up;    // [F, D]
  StoredMatrix down;  // [D, F]
};

struct MoeWeights {
  Weight router;       // [E, D]
  Weight router_bias;  // [1, E] added for the choice only; empty = none
  Weight experts;      // of load_experts
};

struct MoeOptions {
  int top_k = 0;
  Activation activation = Activation::kSilu;
  bool sigmoid_scores = false;   // else softmax
  bool normalize_scores = true;  // over the chosen experts
  float score_scale = 1.0f;
  // Experts in `groups` equal groups, of which the `groups_kept` with the best score
  // take part: the sum of a group's two best, or only the best. 1 = no groups.
  int groups = 1;
  int groups_kept = 1;
  bool group_by_best = false;
};

// Gated delta rule. Source: Gated DeltaNet, arXiv:2412.06464.
// Value head h reads key head h / (v_heads / k_heads).
struct GatedDeltaWeights {
  Weight conv;      // [1, W * C], tap by tap, the oldest first; C = 2 Hk Dk + Hv Dv
  Weight decay;     // [1, Hv] A < 0: a token keeps exp(A softplus(a + bias)) of the state
  Weight bias;      // [1, Hv]
  Weight out_norm;  // [1, Dv]
};

struct GatedDeltaOptions {
  int k_heads = 0, v_heads = 0, k_dim = 0, v_dim = 0, conv_width = 0;
  float norm_eps = 1e-6f;

  int64_t channels() const { return int64_t{2} * k_heads * k_dim + int64_t{v_heads} * v_dim; }
  StateSpec state() const {
    return {.layers = 1,
            .conv_floats = channels() * (conv_width - 1),
            .recurrent_floats = int64_t{v_heads} * k_dim * v_dim};
  }
};

// Multi-head latent attention, absorbed form at every row count: keys and values
// stay compressed, q is projected into their space. Source: DeepSeek-V2, arXiv:2405.04434.
struct LatentWeights {
  Weight norm;      // [1, R] of the latent
  Weight key_up;    // of load_heads: each [R, nope_dim]
  Weight value_up;  // of load_heads: each [v_dim, R]
};

struct LatentOptions {
  int heads = 0;
  int rank = 0;      // R
  int rope_dim = 0;  // of q and of the one key that all heads share
  int nope_dim = 0;
  int v_dim = 0;
  float scale = 0;
  float norm_eps = 1e-6f;
  const Rope* rope = nullptr;

  // What a token keeps: key [rope_dim + R] and, laid out for the sum over keys, value [R].
  KvSpec kv() const {
    return {.layers = 1, .kv_heads = 1, .k_dim = rope_dim + rank, .v_dim = rank};
  }
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
  // All experts of a mixture, of the same shapes. [E, D]
  virtual Weight load_experts(std::span<const StoredExpert> experts);
  // One dense matrix [out, in] for each head, of the same shape. [H * out, in]
  virtual Weight load_heads(std::span<const StoredMatrix> heads);
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

  // Sum over the chosen experts in ascending id, plus residual. Of equal scores the
  // lower id is chosen.
  virtual Tensor moe(const Tensor& x, const MoeWeights& w, const MoeOptions& options,
                     const Tensor& residual);

  // Recurrent layers: token by token within a row, state in step.states[ref.group].
  // x [n, q k v z b a]: q and k [Hk Dk], v and z [Hv Dv], b and a [Hv]. q, k and v
  // pass a causal convolution and silu; then S = decay S + k (sigmoid(b) (v - S^T k))^T,
  // o = S^T q; norm(o) * silu(z). Returns [n, Hv Dv].
  virtual Tensor gated_delta(const Tensor& x, const GatedDeltaWeights& w,
                             const GatedDeltaOptions& options, KvRef ref, const Step& step);
  // x [n, b c u], each [D]: c * conv(b * u), causal, `width` taps [1, W * D]. [n, D]
  // Source: LFM2, arXiv:2511.23404.
  virtual Tensor short_conv(const Tensor& x, const Weight& taps, int width, KvRef ref,
                            const Step& step);

  // q [n, H (nope_dim + rope_dim)], latent [n, R + rope_dim]: norms the latent's first R,
  // rotates q's and the latent's last rope_dim, writes the latent into the pages of
  // the step's tokens and attends over it. Returns [n, H * v_dim].
  virtual Tensor latent_attention(const Tensor& q, const Tensor& latent, const LatentWeights& w,
                                  const LatentOptions& options, KvRef kv, const Step& step);

  // Small ops for what the large ones do not cover.
  virtual Tensor add(const Tensor& a, const Tensor& b) = 0;
  // b [n, width of a], or [n, 1] for one factor a token.
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
