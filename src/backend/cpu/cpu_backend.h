// The eager CPU backend: every op runs its kernel at once on the thread pool,
// over an arena that begin_step resets. Results are bit-identical whatever else
// is in the step, however prompts are chunked and for any number of threads:
// the split over threads never cuts a sum (see docs of each kernel).
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/matmul.h"
#include "backend/cpu/kernels/prompt.h"
#include "backend/cpu/kernels/prompt_attention.h"
#include "backend/cpu/kernels/recurrent.h"
#include "backend/cpu/kernels/rows.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/weight.h"
#include "base/thread_pool.h"

namespace tandem::cpu {

// What Tensor::data points to. Its memory goes back to the arena with the last
// handle, if the step it belongs to is still running.
struct Activations {
  Activations(std::shared_ptr<Arena> arena, int64_t rows, int64_t cols);
  ~Activations();
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  // Gives the memory for codes; the floats are quantised into it by the caller.
  // As signed bytes of so many terms, or as int16.
  QuantizeArgs make_codes(bool bytes, int terms);
  // Likewise for `prompt`, of so many tokens.
  uint16_t* make_prompt(int64_t tokens);

  int64_t rows = 0;
  int64_t cols = 0;
  float* floats = nullptr;           // [rows, cols]
  QuantView quant;                   // empty until a quantised layer asks
  const uint16_t* prompt = nullptr;  // of the step's prompt tokens, as prompt.h says; likewise
  bool per_token = false;            // row i is token i of the step

 private:
  std::shared_ptr<Arena> arena_;
  uint64_t round_ = 0;
  int64_t prompt_values_ = 0;
};

inline Activations& activations(const Tensor& x) { return *static_cast<Activations*>(x.data); }

class CpuBackend final : public Backend {
 public:
  CpuBackend(const BackendOptions& options, Isa isa);

  const char* name() const override { return "cpu"; }
  std::string device() const override;
  Precision precision() const override { return precision_; }

  Weight load(std::span<const StoredMatrix> parts, std::span<const float> bias) override;
  Weight load_gate_up(const StoredMatrix& gate, const StoredMatrix& up,
                      std::span<const float> bias) override;
  Weight load_experts(std::span<const StoredExpert> experts) override;
  Weight load_heads(std::span<const StoredMatrix> heads) override;
  Weight load_vector(std::span<const float> values) override;
  int64_t weight_bytes() const override { return *weight_bytes_; }
  std::unique_ptr<KvStore> make_kv_store(const KvSpec& spec) override;
  std::unique_ptr<StateStore> make_state_store(const StateSpec& spec) override;

  void begin_step(const Step& step) override;
  Tensor embed(const Weight& table, float scale, const Step& step) override;
  Tensor norm(const Tensor& x, const Weight& w, const NormOptions& options,
              const Weight& bias) override;
  Tensor linear(const Tensor& x, const Weight& w, const Tensor& residual, float scale) override;
  Tensor linear_act(const Tensor& x, const Weight& w, Activation activation) override;
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
  // Elements of work below which one thread is faster than two.
  static constexpr int64_t kShareElements = 16384;
  static constexpr int kConvTaps = 16;

  // cos and sin of the step's tokens for one Rope, made once a step.
  struct Angles {
    const Rope* rope = nullptr;
    float* cos = nullptr;  // [n, dims / 2]
    float* sin = nullptr;
  };
  // Keys [begin, end) that each token sees, made once a step and window.
  struct Visible {
    int window = 0;
    int32_t* begin = nullptr;
    int32_t* end = nullptr;
  };
  struct TokenRange {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // Page of each token, made once a step and cache group.
  struct Places {
    int group = 0;
    int32_t* page = nullptr;
  };

  Weight wrap(std::shared_ptr<CpuWeight> weight, int64_t rows, int64_t cols);
  Tensor make_tensor(int64_t rows, int64_t cols);
  // The same, its rows being those of `like`.
  Tensor make_tensor(const Tensor& like, int64_t cols);
  // Calls fn(begin, end, worker) over parts of [0, rows); in one piece, here, if
  // `work` (rows * cost per row in elements) is too little to share.
  template <class F>
  void for_rows(int64_t rows, int64_t work, F&& fn) {
    const int64_t parts =
        work < kShareElements ? 1 : std::min<int64_t>(rows, 4 * int64_t{pool_.threads()});
    pool_.parallel_for(parts, [&](int64_t part, int worker) {
      fn(rows * part / parts, rows * (part + 1) / parts, worker);
    });
  }
  void quantize(const Tensor& x, std::span<const TokenRange> ranges);
  void sort_phases(const Step& step);
  const uint16_t* prompt_tiles(const Tensor& x);
  Tensor matmul(const Tensor& x, const Weight& w, Epilogue epilogue, int64_t out_cols);
  void run_matmul(const MatmulArgs& args, int64_t units, TokenRange tokens);
  void run_prompt_matmul(const PromptMatmulArgs& args, int64_t units);
  Tensor elementwise(ElementwiseArgs args, const Tensor& x);
  Tensor multiply_rows(const Tensor& x, const Tensor& factors);  // factors [n, 1]
  // The end of qkv_rope_write, from the projection on.
  Tensor finish_qkv(const Tensor& qkv, const QkvOptions& options, KvRef kv, const Step& step);
  // Each head's columns [begin, begin + in) of `stride` by the head's own matrix.
  Tensor by_heads(const Tensor& x, int64_t stride, int64_t begin, const Weight& w);
  // Over the first `channels` columns of x, each by itself. [n, channels]
  Tensor causal_conv(const Tensor& x, int64_t channels, const Weight& taps, int width, bool silu,
                     KvRef ref, const Step& step);
  const Angles& angles(const Rope& rope, const Step& step);
  const Visible& visible(int window, const Step& step);
  const Places& places(int group, const Step& step);
  // Tokens of the step's row `row` that attend on tiles: its first so many.
  int64_t tokens_on_tiles(const Step& step, int64_t row) const;
  // Blocks of at most `queries` queries of those tokens, or of the others.
  std::vector<AttentionBlock> attention_blocks(const AttentionOptions& options,
                                               const BlockTable& table, const Step& step,
                                               int64_t queries, bool on_tiles) const;
  void attend_in_blocks(const AttentionArgs& args, const std::vector<AttentionBlock>& blocks);
  void attend_in_partitions(const AttentionArgs& args, const std::vector<AttentionBlock>& blocks);
  // Floats of scratch for every worker, valid until the next reservation.
  void reserve_worker_floats(int64_t floats);
  float* worker_floats(int worker) const;

  Precision precision_;
  Isa isa_;  // of kernels without tiles
  std::string device_;
  ThreadPool pool_;
  MatmulKernel matmul_;
  PromptKernels prompt_;  // empty: prompts take the path of generated tokens
  RowKernels rows_;
  AttentionKernels attention_;
  PromptAttentionKernel prompt_attention_;  // null: as prompt_
  RecurrentKernels recurrent_;
  bool attend_on_tiles_ = false;  // in the layer at hand
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  SharedBlocks weight_memory_;
  std::shared_ptr<std::atomic<int64_t>> weight_bytes_;
  bool any_quantised_ = false;
  Block matmul_scratch_;              // one MatmulScratch a worker
  Block prompt_scratch_;              // one PromptScratch a worker, or empty
  Block float_scratch_;               // floats of each worker
  int64_t float_scratch_floats_ = 0;  // of one worker
  std::vector<Angles> angles_;
  std::vector<Visible> visible_;
  std::vector<Places> places_;
  // The step's tokens by phase, where prompts have a path of their own.
  std::vector<int32_t> prompt_tokens_;
  std::vector<TokenRange> generated_;
};

}  // namespace tandem::cpu
