#include "nn/rope.h"

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

double scaled_frequency(double frequency, const RopeConfig& c) {
  if (c.type == "default") return frequency;
  if (c.type == "linear") return frequency / c.factor;
  if (c.type == "llama3") return llama3_frequency(frequency, c);
  throw Error(ErrorCode::kUnsupported,
              "rope scaling of type \"" + c.type +
                  "\" is not supported; supported: default, linear, llama3");
}

}  // namespace

Rope make_rope(const RopeConfig& config) {
  INVARIANT(config.dims > 0 && config.dims % 2 == 0);
  const size_t half = static_cast<size_t>(config.dims) / 2;
  if (!config.divisors.empty() && config.divisors.size() != half) {
    throw Error(ErrorCode::kLoad, "rope_freqs must have " + std::to_string(half) +
                                      " elements, got " + std::to_string(config.divisors.size()));
  }
  Rope rope;
  for (size_t i = 0; i < half; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / config.dims;
    double frequency = scaled_frequency(std::pow(config.theta, -exponent), config);
    if (!config.divisors.empty()) frequency /= config.divisors[i];
    rope.inv_freq.push_back(static_cast<float>(frequency));
  }
  return rope;
}

}  // namespace tandem
