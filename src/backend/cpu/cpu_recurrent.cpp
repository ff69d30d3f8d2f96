// The ops of CpuBackend that keep a state for each row.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/state_store.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

const float* vector_of(const Weight& w, int64_t size) {
  INVARIANT(w && w.cols == size);
  return static_cast<const CpuWeight&>(*w.storage).vector.data();
}

CpuStateStore& store_of(KvRef ref, const Step& step) {
  INVARIANT(ref.group >= 0 && ref.group < static_cast<int>(step.states.size()));
  INVARIANT(static_cast<int64_t>(step.state_slot.size()) == step.n_rows());
  return static_cast<CpuStateStore&>(*step.states[ref.group]);
}

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// The last `kept` inputs of each row, for the step after. x [n, stride].
void keep_inputs(const float* x, int64_t stride, int64_t channels, int64_t kept, KvRef ref,
                 const Step& step) {
  CpuStateStore& store = store_of(ref, step);
  for (int64_t row = 0; row < step.n_rows(); row++) {
    float* state = store.conv(step.state_slot[row], ref.layer);
    const int64_t begin = step.row_start[row];
    const int64_t fresh = std::min(kept, step.row_start[row + 1] - begin);
    const int64_t old = kept - fresh;
    std::memmove(state, state + fresh * channels, sizeof(float) * old * channels);
    for (int64_t i = old; i < kept; i++) {
      const int64_t t = step.row_start[row + 1] - (kept - i);
      std::memcpy(state + i * channels, x + t * stride, sizeof(float) * channels);
    }
  }
}

}  // namespace

std::unique_ptr<StateStore> CpuBackend::make_state_store(const StateSpec& spec) {
  return std::make_unique<CpuStateStore>(spec);
}

// Every token needs only inputs, of this step or kept from the last, so tokens are
// shared out over threads.
Tensor CpuBackend::causal_conv(const Tensor& x, int64_t channels, const Weight& taps, int width,
                               bool silu, KvRef ref, const Step& step) {
  INVARIANT(x.rows == step.n_tokens() && channels <= x.cols && width > 1 && width <= kConvTaps);
  const CpuStateStore& store = store_of(ref, step);
  INVARIANT(store.spec().conv_floats == channels * (width - 1));
  const Tensor y = make_tensor(x.rows, channels);
  const ConvArgs args{vector_of(taps, width * channels), width, channels, silu};
  for_rows(x.rows, x.rows * channels * width, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; t++) {
      const int32_t row = step.token_row[t];
      const float* state = store.conv(step.state_slot[row], ref.layer);
      const float* inputs[kConvTaps];
      for (int64_t j = 0; j < width; j++) {
        const int64_t source = t - (width - 1) + j;
        const int64_t before = source - step.row_start[row] + width - 1;  // in the state
        inputs[j] = source >= step.row_start[row] ? activations(x).floats + source * x.cols
                                                  : state + before * channels;
      }
      recurrent_.conv(args, inputs, activations(y).floats + t * channels);
    }
  });
  keep_inputs(activations(x).floats, x.cols, channels, width - 1, ref, step);
  return y;
}

Tensor CpuBackend::gated_delta(const Tensor& x, const GatedDeltaWeights& w,
                               const GatedDeltaOptions& o, KvRef ref, const Step& step) {
  const int64_t n = x.rows, heads = o.v_heads, k_size = int64_t{o.k_heads} * o.k_dim;
  const int64_t v_size = heads * o.v_dim, channels = o.channels();
  INVARIANT(x.cols == channels + v_size + 2 * heads && heads % o.k_heads == 0);
  const Tensor qkv = causal_conv(x, channels, w.conv, o.conv_width, /*silu=*/true, ref, step);
  const Tensor gates = make_tensor(n, 2 * heads);  // decay, beta
  const Tensor out = make_tensor(n, v_size);
  const float* in = activations(x).floats;
  float* gate = activations(gates).floats;
  const float* rate = vector_of(w.decay, heads);
  const float* bias = vector_of(w.bias, heads);
  for (int64_t t = 0; t < n; t++) {
    const float* b = in + t * x.cols + channels + v_size;
    for (int64_t h = 0; h < heads; h++) {
      gate[t * 2 * heads + h] = std::exp(rate[h] * softplus(b[heads + h] + bias[h]));
      gate[t * 2 * heads + heads + h] = 1 / (1 + std::exp(-b[h]));
    }
  }

  const CpuStateStore& store = store_of(ref, step);
  INVARIANT(store.spec().recurrent_floats == o.state().recurrent_floats);
  reserve_worker_floats(delta_scratch_floats(o.k_dim));
  pool_.parallel_for(step.n_rows() * heads, [&](int64_t task, int worker) {
    const int64_t row = task / heads, h = task % heads, first = step.row_start[row];
    const int64_t key = h / (heads / o.k_heads) * o.k_dim;
    DeltaArgs args;
    args.tokens = step.row_start[row + 1] - first;
    args.k_dim = o.k_dim;
    args.v_dim = o.v_dim;
    args.q = activations(qkv).floats + first * channels + key;
    args.k = args.q + k_size;
    args.v = activations(qkv).floats + first * channels + 2 * k_size + h * o.v_dim;
    args.stride = channels;
    args.z = in + first * x.cols + channels + h * o.v_dim;
    args.z_stride = x.cols;
    args.decay = gate + first * 2 * heads + h;
    args.beta = args.decay + heads;
    args.gate_stride = 2 * heads;
    args.norm = vector_of(w.out_norm, o.v_dim);
    args.norm_eps = o.norm_eps;
    args.state = store.recurrent(step.state_slot[row], ref.layer) + h * o.k_dim * o.v_dim;
    args.out = activations(out).floats + first * v_size + h * o.v_dim;
    args.out_stride = v_size;
    recurrent_.delta(args, worker_floats(worker));
  });
  return out;
}

Tensor CpuBackend::short_conv(const Tensor& x, const Weight& taps, int width, KvRef ref,
                              const Step& step) {
  INVARIANT(x.cols % 3 == 0);
  const int64_t dim = x.cols / 3;
  const Tensor b = columns(x, 0, dim), c = columns(x, dim, 2 * dim);
  const Tensor u = multiply(b, columns(x, 2 * dim, 3 * dim));
  return multiply(c, causal_conv(u, dim, taps, width, /*silu=*/false, ref, step));
}

}  // namespace tandem::cpu
