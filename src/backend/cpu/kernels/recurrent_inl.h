// The bodies of recurrent.h for one instruction set.

#include "backend/cpu/kernels/activation_inl.h"

void conv(const ConvArgs& a, const float* const* inputs, float* out) {
  for (int64_t c = 0; c < a.channels; c += 16) {
    const int64_t n = a.channels - c;
    F acc = f_zero();
    for (int64_t j = 0; j < a.width; j++) {
      acc = f_fma(f_load_part(a.taps + j * a.channels + c, n), f_load_part(inputs[j] + c, n), acc);
    }
    f_store_part(out + c, a.silu ? f_activate(Activation::kSilu, acc) : acc, n);
  }
}

// x / |x| * scale
TANDEM_INLINE void to_unit(const float* x, int64_t n, float scale, float* out) {
  F acc = f_zero();
  for (int64_t i = 0; i < n; i += 16) {
    const F v = f_load_part(x + i, n - i);
    acc = f_fma(v, v, acc);
  }
  const F inverse = f_set(scale / __builtin_sqrtf(f_sum(acc) + 1e-6f));
  for (int64_t i = 0; i < n; i += 16) {
    f_store_part(out + i, f_mul(f_load_part(x + i, n - i), inverse), n - i);
  }
}

// kVectors * 16 columns of the state at once, so that their sums run side by side.
template <int kVectors>
TANDEM_INLINE void delta_columns(const DeltaArgs& a, const float* q, const float* k, const float* v,
                                 float decay, float beta, int64_t column, float* out) {
  const int64_t n = a.v_dim - column;
  float* state = a.state + column;
  F sum[kVectors];
  for (int i = 0; i < kVectors; i++) sum[i] = f_zero();
  for (int64_t row = 0; row < a.k_dim; row++) {
    float* s = state + row * a.v_dim;
    for (int i = 0; i < kVectors; i++) {
      const F kept = f_mul(f_load_part(s + 16 * i, n - 16 * i), f_set(decay));
      f_store_part(s + 16 * i, kept, n - 16 * i);
      sum[i] = f_fma(kept, f_set(k[row]), sum[i]);
    }
  }
  F change[kVectors];
  for (int i = 0; i < kVectors; i++) {
    change[i] = f_mul(f_sub(f_load_part(v + column + 16 * i, n - 16 * i), sum[i]), f_set(beta));
    sum[i] = f_zero();
  }
  for (int64_t row = 0; row < a.k_dim; row++) {
    float* s = state + row * a.v_dim;
    for (int i = 0; i < kVectors; i++) {
      const F next = f_fma(change[i], f_set(k[row]), f_load_part(s + 16 * i, n - 16 * i));
      f_store_part(s + 16 * i, next, n - 16 * i);
      sum[i] = f_fma(next, f_set(q[row]), sum[i]);
    }
  }
  for (int i = 0; i < kVectors; i++) f_store_part(out + column + 16 * i, sum[i], n - 16 * i);
}

static void norm_and_gate(const DeltaArgs& a, const float* z, float* out) {
  F acc = f_zero();
  for (int64_t i = 0; i < a.v_dim; i += 16) {
    const F o = f_load_part(out + i, a.v_dim - i);
    acc = f_fma(o, o, acc);
  }
  const float mean = f_sum(acc) / static_cast<float>(a.v_dim);
  const F inverse = f_set(1.0f / __builtin_sqrtf(mean + a.norm_eps));
  for (int64_t i = 0; i < a.v_dim; i += 16) {
    const int64_t n = a.v_dim - i;
    const F o = f_mul(f_mul(f_load_part(out + i, n), inverse), f_load_part(a.norm + i, n));
    f_store_part(out + i, f_mul(o, f_activate(Activation::kSilu, f_load_part(z + i, n))), n);
  }
}

void delta(const DeltaArgs& a, float* scratch) {
  float* q = scratch;
  float* k = scratch + a.k_dim + 16;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(a.k_dim));
  for (int64_t t = 0; t < a.tokens; t++) {
    to_unit(a.q + t * a.stride, a.k_dim, scale, q);
    to_unit(a.k + t * a.stride, a.k_dim, 1.0f, k);
    const float* v = a.v + t * a.stride;
    const float decay = a.decay[t * a.gate_stride];
    const float beta = a.beta[t * a.gate_stride];
    float* out = a.out + t * a.out_stride;
    int64_t column = 0;
    for (; column + 64 <= a.v_dim; column += 64) {
      delta_columns<4>(a, q, k, v, decay, beta, column, out);
    }
    for (; column < a.v_dim; column += 16) {
      delta_columns<1>(a, q, k, v, decay, beta, column, out);
    }
    norm_and_gate(a, a.z + t * a.z_stride, out);
  }
}
