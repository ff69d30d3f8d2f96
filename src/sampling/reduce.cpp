#include "sampling/reduce.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tandem {

namespace {

// Four registers of four lanes, whatever the machine: the order of additions, and
// with it every result, is the same everywhere.
using F4 = float __attribute__((vector_size(16)));
using I4 = int32_t __attribute__((vector_size(16)));
constexpr size_t kRegisters = 4;
constexpr size_t kLanes = 4 * kRegisters;
constexpr size_t kBlock = 512;  // floats summed in single precision before going to double
constexpr float kInf = std::numeric_limits<float>::infinity();

F4 splat(float x) { return F4{x, x, x, x}; }

F4 load(const float* x) {
  F4 value;
  std::memcpy(&value, x, sizeof(value));
  return value;
}

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln(2)/2; ln 2 in two parts as
// in Cody and Waite, "Software Manual for the Elementary Functions" (1980); e^r
// by its Taylor series to r^7.
inline F4 exp4(F4 x) {
  const F4 low = splat(-87.0f);         // below this 2^n would be subnormal
  const F4 round = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const I4 in_range = x >= low;
  const F4 clamped = in_range ? x : low;
  const F4 shifted = clamped * splat(1.44269504088896341f) + round;
  const F4 n = shifted - round;
  const F4 r = (clamped - n * splat(0.693359375f)) - n * splat(-2.12194440e-4f);
  F4 p = splat(1.0f / 5040) * r + splat(1.0f / 720);
  p = p * r + splat(1.0f / 120);
  p = p * r + splat(1.0f / 24);
  p = p * r + splat(1.0f / 6);
  p = p * r + splat(0.5f);
  p = p * r + splat(1.0f);
  p = p * r + splat(1.0f);
  // The low bits of `shifted` hold n in two's complement.
  const I4 power = ((I4)shifted + I4{127, 127, 127, 127}) << 23;
  return (F4)((I4)(p * (F4)power) & in_range);
}

// Sum over at most kBlock floats; what a last part lacks counts as e^-inf.
template <bool kStore>
double sum_block(const float* x, size_t n, float max, float scale, float* out) {
  F4 sums[kRegisters] = {};
  for (size_t i = 0; i < n; i += kLanes) {
    float padded[kLanes];
    const float* in = x + i;
    if (n - i < kLanes) {
      std::fill(padded, padded + kLanes, -kInf);
      std::copy(in, x + n, padded);
      in = padded;
    }
    F4 e[kRegisters];
    for (size_t r = 0; r < kRegisters; ++r) {
      e[r] = exp4((load(in + 4 * r) - splat(max)) * splat(scale));
      sums[r] += e[r];
    }
    if constexpr (kStore) std::memcpy(out + i, e, std::min(kLanes, n - i) * sizeof(float));
  }
  double sum = 0;
  for (F4 lanes : sums) {
    for (int l = 0; l < 4; ++l) sum += lanes[l];
  }
  return sum;
}

// Largest value of a block; NaN if one is there.
float max_block(const float* x, size_t n) {
  F4 max[kRegisters];
  I4 nan[kRegisters] = {};
  std::fill(max, max + kRegisters, splat(-kInf));
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t r = 0; r < kRegisters; ++r) {
      const F4 v = load(x + i + 4 * r);
      max[r] = v > max[r] ? v : max[r];
      nan[r] |= v != v;
    }
  }
  float result = -kInf;
  bool bad = false;
  for (size_t r = 0; r < kRegisters; ++r) {
    for (int l = 0; l < 4; ++l) {
      result = std::max(result, max[r][l]);
      bad |= nan[r][l] != 0;
    }
  }
  for (; i < n; ++i) {
    result = std::max(result, x[i]);
    bad |= x[i] != x[i];
  }
  return bad ? std::numeric_limits<float>::quiet_NaN() : result;
}

template <bool kStore>
double sum_all(std::span<const float> x, float max, float scale, float* out) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); i += kBlock) {
    const size_t n = std::min(kBlock, x.size() - i);
    sum += sum_block<kStore>(x.data() + i, n, max, scale, kStore ? out + i : nullptr);
  }
  return sum;
}

}  // namespace

float exp_nonpositive(float x) { return exp4(splat(x))[0]; }

MaxOf max_of(std::span<const float> x) {
  MaxOf best{.value = -kInf};
  size_t best_block = 0;
  for (size_t i = 0; i < x.size(); i += kBlock) {
    const float value = max_block(x.data() + i, std::min(kBlock, x.size() - i));
    if (value != value) return best;
    if (value > best.value) {
      best.value = value;
      best_block = i;
    }
  }
  best.valid = best.value > -kInf && best.value < kInf;
  if (best.valid) {
    const auto found = std::find(x.begin() + best_block, x.end(), best.value);
    best.index = static_cast<int32_t>(found - x.begin());
  }
  return best;
}

void append_at_least(std::span<const float> x, float low, std::vector<int32_t>& indices) {
  const auto append = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (x[i] >= low) indices.push_back(static_cast<int32_t>(i));
    }
  };
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    I4 found = {};
    for (size_t r = 0; r < kRegisters; ++r) found |= load(x.data() + i + 4 * r) >= splat(low);
    if (found[0] | found[1] | found[2] | found[3]) append(i, i + kLanes);
  }
  append(i, x.size());
}

double exp_each(std::span<const float> x, float max, float scale, std::span<float> out) {
  return sum_all<true>(x, max, scale, out.data());
}

double exp_sum(std::span<const float> x, float max, float scale) {
  return sum_all<false>(x, max, scale, nullptr);
}

}  // namespace tandem
