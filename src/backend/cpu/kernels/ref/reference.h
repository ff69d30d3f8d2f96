// The oracles: what kernels promise, in plain loops on the weights as stored.
// Tests hold every instruction set against them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/stored.h"

namespace tandem::cpu::ref {

// Activations of one token as integers, in column order.
struct Quantised {
  std::vector<int32_t> codes;  // [K]
  std::vector<float> scale;    // [K / 32]
};
Quantised quantise(std::span<const float> x, int limit);

// x W^T by matmul.h's order of operations, so to the bit. `limit` is the largest
// activation code, 0 for float activations. x [n, K], result [n, rows].
std::vector<float> matmul(const StoredMatrix& w, std::span<const float> x, int64_t n, int limit);

// The same for prompt tokens on tiles of bf16, by prompt.h's order, to the bit.
std::vector<float> prompt_matmul(const StoredMatrix& w, std::span<const float> x, int64_t n);

// One query over the keys and values it sees, in double precision.
//   q [k_dim], keys [count, k_dim], values [count, v_dim], result [v_dim]
// `sink`: an extra logit without a value, or null.
std::vector<double> attention(std::span<const float> q, std::span<const float> keys,
                              std::span<const float> values, int64_t count, double scale,
                              double softcap, const float* sink);

// x / rms(x) * w, or layer norm, in double precision. `w` and `bias` may be empty.
std::vector<double> norm(std::span<const float> x, std::span<const float> w,
                         std::span<const float> bias, double eps, bool layer_norm);

double activate(Activation activation, double x);

}  // namespace tandem::cpu::ref
