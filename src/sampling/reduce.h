// Sums and maxima over a row of logits, fast and the same on every machine: a
// fixed number of lanes in a fixed order, an own exp, no fused operations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

struct MaxOf {
  float value = 0;
  int32_t index = 0;   // lowest among equals
  bool valid = false;  // false: some value is NaN or +inf, or all are -inf
};

MaxOf max_of(std::span<const float> x);

// Appends the indices of values >= low, ascending.
void append_at_least(std::span<const float> x, float low, std::vector<int32_t>& indices);

// e^x for x <= 0, within 2 units in the last place; 0 below about -87.
float exp_nonpositive(float x);

// out[i] = e^((x[i] - max) * scale), x <= max, scale >= 0. Returns the sum,
// accumulated in double.
double exp_each(std::span<const float> x, float max, float scale, std::span<float> out);

// The same sum without the values.
double exp_sum(std::span<const float> x, float max, float scale);

}  // namespace tandem
