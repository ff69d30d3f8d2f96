// The bodies of rows.h for one instruction set.

#include "backend/cpu/kernels/kv_write_inl.h"

// --- Quantise ----------------------------------------------------------------

#if defined(TANDEM_SIMD_AVX512)
// Codes as one signed byte, or as two: the first counts 128, the second is in
// [-64, 63].
TANDEM_INLINE void store_bytes(const QuantizeArgs& a, int64_t at, I c0, I c1) {
  int8_t* out = a.bytes + at * a.terms * 32;
  if (a.terms == 2) {
    const I h0 = i_shift_right7(i_add(c0, i_set(64)));
    const I h1 = i_shift_right7(i_add(c1, i_set(64)));
    i_store_s8(out, h0);
    i_store_s8(out + 16, h1);
    c0 = _mm512_sub_epi32(c0, i_shift_left7(h0));
    c1 = _mm512_sub_epi32(c1, i_shift_left7(h1));
    out += 32;
  }
  i_store_s8(out, c0);
  i_store_s8(out + 16, c1);
}
#endif

TANDEM_INLINE void quantize_group(const QuantizeArgs& a, const float* x, int64_t at) {
  const F x0 = f_load(x);
  const F x1 = f_load(x + 16);
  const int32_t max_bits = i_max_lane(i_max(i_abs_bits(x0), i_abs_bits(x1)));
  float max;
  memcpy(&max, &max_bits, 4);
  // Below this 1 / scale is no float; NaN and infinity have the largest bits.
  const bool usable = max > 1e-34f && max_bits < 0x7f800000;
  const float limit = static_cast<float>(a.limit);
  const F inverse = f_set(usable ? limit / max : 0.0f);
  const float scale = usable ? max / limit : max_bits < 0x7f800000 ? 0.0f : __builtin_nanf("");
  I c0 = i_zero();
  I c1 = i_zero();
  if (usable) {
    c0 = i_round(f_mul(x0, inverse));
    c1 = i_round(f_mul(x1, inverse));
  }
  if (a.codes) {
    i_store_s16(a.codes + at * 32, i_swap_middle(c0));
    i_store_s16(a.codes + at * 32 + 16, i_swap_middle(c1));
  }
#if defined(TANDEM_SIMD_AVX512)
  if (a.bytes) store_bytes(a, at, c0, c1);
#endif
  const int32_t sum0 = i_sum(c0);
  const int32_t sum1 = i_sum(c1);
  a.sum[at * 2] = sum0;
  a.sum[at * 2 + 1] = sum1;
  a.scale[at] = scale;
  a.scaled_sum[at] = scale * static_cast<float>(sum0 + sum1);
}

void quantize(const QuantizeArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; t++) {
    const float* x = a.x + t * a.columns;
    for (int64_t g = 0; g < a.columns / 32; g++) quantize_group(a, x + g * 32, g * a.stride + t);
  }
}

// --- Norms -------------------------------------------------------------------

// Sum of (x - mean)^2: lane i takes columns i, i + 16, ..., two vectors in turn.
TANDEM_INLINE float sum_of_squares(const float* x, int64_t n, float mean) {
  F acc[2] = {f_zero(), f_zero()};
  const F m = f_set(mean);
  int64_t k = 0;
  for (; k + 16 <= n; k += 16) {
    const F d = f_sub(f_load(x + k), m);
    acc[k / 16 & 1] = f_fma(d, d, acc[k / 16 & 1]);
  }
  if (k < n) {
    float rest[16] = {};
    for (int64_t i = k; i < n; i++) rest[i - k] = x[i] - mean;
    const F d = f_load(rest);
    acc[0] = f_fma(d, d, acc[0]);
  }
  return f_sum(f_add(acc[0], acc[1]));
}

TANDEM_INLINE float sum_of(const float* x, int64_t n) {
  F acc = f_zero();
  for (int64_t k = 0; k < n; k += 16) acc = f_add(acc, f_load_part(x + k, n - k));
  return f_sum(acc);
}

static void norm_row(const float* x, float* out, int64_t n, const float* weight, const float* bias,
                     float eps, bool layer_norm) {
  const float count = static_cast<float>(n);
  const float mean = layer_norm ? sum_of(x, n) / count : 0.0f;
  const float inverse = 1.0f / __builtin_sqrtf(sum_of_squares(x, n, mean) / count + eps);
  for (int64_t k = 0; k < n; k += 16) {
    F y = f_load_part(x + k, n - k);
    if (layer_norm) y = f_sub(y, f_set(mean));
    y = f_mul(y, f_set(inverse));
    if (weight) y = f_mul(y, f_load_part(weight + k, n - k));
    if (bias) y = f_add(y, f_load_part(bias + k, n - k));
    f_store_part(out + k, y, n - k);
  }
}

void norm(const NormArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; t++) {
    norm_row(a.x + t * a.columns, a.out + t * a.columns, a.columns, a.weight, a.bias, a.eps,
             a.layer_norm);
  }
}

// --- Elementwise -------------------------------------------------------------

void elementwise(const ElementwiseArgs& a, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += 16) {
    const F x = f_load_part(a.a + i, end - i);
    F y = x;
    switch (a.op) {
      case Elementwise::kAdd: y = f_add(x, f_load_part(a.b + i, end - i)); break;
      case Elementwise::kMultiply: y = f_mul(x, f_load_part(a.b + i, end - i)); break;
      case Elementwise::kScale: y = f_mul(x, f_set(a.factor)); break;
      case Elementwise::kActivate: y = f_activate(a.activation, x); break;
    }
    f_store_part(a.out + i, y, end - i);
  }
}

// --- The end of a q/k/v projection ---------------------------------------------

static void rotate(float* x, const float* cos, const float* sin, int64_t half, bool interleaved) {
  if (interleaved) {
    for (int64_t i = 0; i < half; i++) {
      const float a = x[2 * i];
      const float b = x[2 * i + 1];
      x[2 * i] = a * cos[i] - b * sin[i];
      x[2 * i + 1] = b * cos[i] + a * sin[i];
    }
    return;
  }
  for (int64_t i = 0; i < half; i += 16) {
    const int64_t n = half - i;
    const F a = f_load_part(x + i, n);
    const F b = f_load_part(x + half + i, n);
    const F c = f_load_part(cos + i, n);
    const F s = f_load_part(sin + i, n);
    f_store_part(x + i, f_sub(f_mul(a, c), f_mul(b, s)), n);
    f_store_part(x + half + i, f_add(f_mul(b, c), f_mul(a, s)), n);
  }
}

// Norms heads of x in place, each by itself or all at once.
static void norm_heads(float* x, int64_t heads, int64_t dim, const float* weight, bool whole,
                       float eps) {
  if (whole) return norm_row(x, x, heads * dim, weight, nullptr, eps, false);
  for (int64_t h = 0; h < heads; h++) {
    norm_row(x + h * dim, x + h * dim, dim, weight, nullptr, eps, false);
  }
}

static void finish_token(const QkvArgs& a, int64_t t, float* row) {
  const QkvOptions& o = *a.options;
  const int64_t q_size = int64_t{o.heads} * o.head_dim;
  const int64_t k_size = int64_t{o.kv_heads} * o.head_dim;
  const int64_t v_size = int64_t{o.kv_heads} * o.v_dim;
  memcpy(row, a.qkv + t * a.stride, static_cast<size_t>(a.stride) * 4);
  float* k = row + q_size;
  float* v = k + k_size;
  if (o.k_is_v) memcpy(v, k, static_cast<size_t>(v_size) * 4);

  if (a.q_norm) norm_heads(row, o.heads, o.head_dim, a.q_norm, a.q_norm_whole, o.norm_eps);
  if (a.k_norm) norm_heads(k, o.kv_heads, o.head_dim, a.k_norm, a.k_norm_whole, o.norm_eps);
  if (o.v_norm) norm_heads(v, o.kv_heads, o.v_dim, nullptr, false, o.norm_eps);
  if (a.cos) {
    const float* cos = a.cos + t * a.rope_half;
    const float* sin = a.sin + t * a.rope_half;
    for (int64_t h = 0; h < o.heads + o.kv_heads; h++) {
      rotate(row + h * o.head_dim, cos, sin, a.rope_half, o.rope->interleaved);
    }
  }
  memcpy(a.q + t * q_size, row, static_cast<size_t>(q_size) * 4);
  const KvPlanes& kv = a.kv.at(a.position[t]);
  const int64_t slot = a.position[t] % kPageTokens;
  for (int64_t h = 0; h < o.kv_heads; h++) {
    write_key(kv.k_format, kv.k(a.page[t], h), slot, k + h * o.head_dim, o.head_dim);
    write_value(kv.v_format, kv.v(a.page[t], h), slot, v + h * o.v_dim, o.v_dim);
  }
}

void finish_qkv(const QkvArgs& a, int64_t begin, int64_t end, float* scratch) {
  for (int64_t t = begin; t < end; t++) finish_token(a, t, scratch);
}
