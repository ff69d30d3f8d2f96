#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tandem {

namespace {

// Long waves are slowed by `factor`, short ones kept, those between blended.
double llama3_frequency(double frequency, const RopeConfig& c) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double longest_kept = c.original_max_positions / c.high_freq_factor;
  const double shortest_slowed = c.original_max_positions / c.low_freq_factor;
  if (wavelength < longest_kept) return frequency;
  if (wavelength > shortest_slowed) return frequency / c.factor;
  const double keep = (c.original_max_positions / wavelength - c.low_freq_factor) /
                      (c.high_freq_factor - c.low_freq_factor);
  return (1 - keep) * frequency / c.factor + keep * frequency;
}

// The frequency, counted in dims, that turns so often over the original context.
double yarn_dim(double rotations, const RopeConfig& c) {
  return c.dims * std::log(c.original_max_positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(c.theta));
}

// Frequencies below the ramp are kept, above it divided, on it blended.
double yarn_frequency(double frequency, size_t index, const RopeConfig& c) {
  double low = yarn_dim(c.beta_fast, c), high = yarn_dim(c.beta_slow, c);
  if (c.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, c.dims - 1.0);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(index) - low) / (high - low), 0.0, 1.0);
  return frequency / c.factor * ramp + frequency * (1 - ramp);
}

double yarn_attention_factor(const RopeConfig& c) {
  if (c.attention_factor > 0) return c.attention_factor;
  if (c.mscale > 0 && c.mscale_all_dim > 0) {
    return yarn_mscale(c.factor, c.mscale) / yarn_mscale(c.factor, c.mscale_all_dim);
  }
  return yarn_mscale(c.factor, 1);
}

double scaled_frequency(double frequency, size_t index, const RopeConfig& c) {
  if (c.type == "default") return frequency;
  if (c.type == "linear") return frequency / c.factor;
  if (c.type == "llama3") return llama3_frequency(frequency, c);
  if (c.type == "yarn") return yarn_frequency(frequency, index, c);
  throw Error(ErrorCode::kUnsupported,
              "rope scaling of type \"" + c.type +
                  "\" is not supported; supported: default, linear, llama3, yarn");
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

Rope make_rope(const RopeConfig& config) {
  INVARIANT(config.dims > 0 && config.dims % 2 == 0);
  const size_t half = static_cast<size_t>(config.dims) / 2;
  if (!config.divisors.empty() && config.divisors.size() != half) {
    throw Error(ErrorCode::kLoad, "rope_freqs must have " + std::to_string(half) +
                                      " elements, got " + std::to_string(config.divisors.size()));
  }
  Rope rope;
  if (config.type == "yarn") {
    rope.cos_sin_scale = static_cast<float>(yarn_attention_factor(config));
  }
  for (size_t i = 0; i < half; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / config.dims;
    double frequency = scaled_frequency(std::pow(config.theta, -exponent), i, config);
    if (!config.divisors.empty()) frequency /= config.divisors[i];
    rope.inv_freq.push_back(static_cast<float>(frequency));
  }
  return rope;
}

}  // namespace tandem
