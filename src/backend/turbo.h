// What TurboQuant's values are made of, the same for every backend.
//
// A value vector x of D elements, a power of two, is turned to
//   y = H (s * x) / sqrt(D)
// with fixed signs s and the Walsh-Hadamard matrix H in natural order, which
// spreads outliers over all elements; for each group of 32 the f16 RMS of y is kept
// and y / RMS is rounded to the nearest level of the Lloyd-Max quantiser of the
// normal distribution. Backwards: x = s * (H y) / sqrt(D).
// Source: TurboQuant, arXiv:2504.19874; levels: Max 1960.
#pragma once

#include <span>

namespace tandem {

inline constexpr int kTurboDimMax = 512;

// The 2^bits levels, ascending; bits 2, 3, 4, 5 or 8. The array is at least 16 long.
const float* turbo_levels(int bits);
// Halfway between neighbours: value v has code = number of borders below v. The
// last of 2^bits entries is infinity.
const float* turbo_borders(int bits);
// +1 or -1 for each element.
std::span<const float, kTurboDimMax> turbo_signs();

}  // namespace tandem
