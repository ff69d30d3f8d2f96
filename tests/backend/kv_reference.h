// What becomes of a key or a value that is written to a page and read again, in
// plain loops and double precision: the oracle of every codec.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "backend/kv_store.h"
#include "backend/stored.h"
#include "backend/turbo.h"

namespace tandem::test {

inline double as_f16(double x) { return f16_to_f32(f32_to_f16(static_cast<float>(x))); }

inline void affine_round_trip(std::vector<double>& x, size_t begin, const PlaneFormat& f) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto [low, high] = std::minmax_element(first, first + f.group);
  const double levels = (1 << f.bits) - 1;
  const double scale = as_f16((*high - *low) / levels), bias = as_f16(*low);
  for (auto it = first; it != first + f.group; ++it) {
    const double code =
        scale > 0 ? std::clamp(std::nearbyint((*it - bias) / scale), 0.0, levels) : 0;
    *it = code * scale + bias;
  }
}

// y[r] = sum over c of (-1)^(bits of r and c) x[c] / sqrt(n)
inline std::vector<double> walsh_hadamard(const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t c = 0; c < x.size(); ++c) y[r] += std::popcount(r & c) % 2 ? -x[c] : x[c];
    y[r] /= std::sqrt(static_cast<double>(x.size()));
  }
  return y;
}

inline void turbo_round_trip(std::vector<double>& x, const PlaneFormat& f) {
  const auto signs = turbo_signs();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= signs[i];
  std::vector<double> y = walsh_hadamard(x);
  for (size_t g = 0; g < y.size(); g += f.group) {
    double sum = 0;
    for (int i = 0; i < f.group; ++i) sum += y[g + i] * y[g + i];
    const double scale = as_f16(std::sqrt(sum / f.group));
    for (int i = 0; i < f.group; ++i) {
      const float* levels = turbo_levels(f.bits);
      const float* best = std::min_element(levels, levels + (1 << f.bits), [&](float a, float b) {
        return std::abs(a * scale - y[g + i]) < std::abs(b * scale - y[g + i]);
      });
      y[g + i] = *best * scale;
    }
  }
  x = walsh_hadamard(y);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= signs[i];
}

// One head's vector of one token.
inline std::vector<double> round_trip(std::vector<double> x, const PlaneFormat& f) {
  switch (f.codec) {
    case KvCodec::kF32: break;
    case KvCodec::kF16:
      for (double& value : x) value = as_f16(value);
      break;
    case KvCodec::kBF16:
      for (double& value : x) value = bf16_to_f32(f32_to_bf16(static_cast<float>(value)));
      break;
    case KvCodec::kAffine:
      for (size_t g = 0; g < x.size(); g += f.group) affine_round_trip(x, g, f);
      break;
    case KvCodec::kTurbo: turbo_round_trip(x, f); break;
  }
  return x;
}

}  // namespace tandem::test
