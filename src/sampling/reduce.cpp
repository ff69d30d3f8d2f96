#include "sampling/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tandem {

namespace {

constexpr int kLanes = 16;
constexpr size_t kBlock = 512;  // floats summed in single precision before going to double

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln(2)/2; ln 2 in two parts as
// in Cody and Waite, "Software Manual for the Elementary Functions" (1980); e^r
// by its Taylor series to r^7.
inline float exp_lane(float x) {
  constexpr float kLow = -87.0f;  // below this 2^n would be subnormal
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < kLow ? kLow : x;
  const float shifted = clamped * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The low bits of `shifted` hold n in two's complement.
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  const float result = p * std::bit_cast<float>(power);
  return x < kLow ? 0.0f : result;
}

template <bool kStore>
double sum_block(const float* x, size_t n, float max, float scale, float* out) {
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float e = exp_lane((x[i + l] - max) * scale);
      lanes[l] += e;
      if constexpr (kStore) out[i + l] = e;
    }
  }
  double sum = 0;
  for (float lane : lanes) sum += lane;
  for (; i < n; ++i) {
    const float e = exp_lane((x[i] - max) * scale);
    sum += e;
    if constexpr (kStore) out[i] = e;
  }
  return sum;
}

}  // namespace

float exp_nonpositive(float x) { return exp_lane(x); }

MaxOf max_of(std::span<const float> x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  float lanes[kLanes];
  int32_t nan[kLanes] = {};
  std::fill(lanes, lanes + kLanes, -kInf);
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float v = x[i + l];
      lanes[l] = v > lanes[l] ? v : lanes[l];
      nan[l] |= v != v;
    }
  }
  MaxOf best;
  best.value = *std::max_element(lanes, lanes + kLanes);
  bool bad = std::any_of(nan, nan + kLanes, [](int32_t n) { return n != 0; });
  for (; i < x.size(); ++i) {
    best.value = x[i] > best.value ? x[i] : best.value;
    bad |= x[i] != x[i];
  }
  best.valid = !bad && best.value > -kInf && best.value < kInf;
  if (best.valid) {
    best.index = static_cast<int32_t>(std::find(x.begin(), x.end(), best.value) - x.begin());
  }
  return best;
}

double exp_each(std::span<const float> x, float max, float scale, std::span<float> out) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); i += kBlock) {
    const size_t n = std::min(kBlock, x.size() - i);
    sum += sum_block<true>(x.data() + i, n, max, scale, out.data() + i);
  }
  return sum;
}

double exp_sum(std::span<const float> x, float max, float scale) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); i += kBlock) {
    const size_t n = std::min(kBlock, x.size() - i);
    sum += sum_block<false>(x.data() + i, n, max, scale, nullptr);
  }
  return sum;
}

}  // namespace tandem
