#include "base/histogram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {
  INVARIANT(std::is_sorted(bounds_.begin(), bounds_.end()));
}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[bucket - bounds_.begin()].fetch_add(1, std::memory_order_relaxed);
  sum_.store(sum() + value, std::memory_order_relaxed);
}

std::vector<int64_t> Histogram::counts() const {
  std::vector<int64_t> counts;
  for (const auto& count : counts_) counts.push_back(count.load(std::memory_order_relaxed));
  return counts;
}

std::vector<double> log_bounds(double low, double high, int steps) {
  INVARIANT(low > 0 && low < high && steps > 0);
  const double first = std::log10(low);
  const int count = static_cast<int>(std::lround((std::log10(high) - first) * steps));
  std::vector<double> bounds;
  for (int i = 0; i <= count; ++i) {
    const double exact = std::pow(10.0, first + static_cast<double>(i) / steps);
    const double unit = std::pow(10.0, std::floor(std::log10(exact) + 1e-9) - 1);
    bounds.push_back(std::round(exact / unit) * unit);
  }
  return bounds;
}

}  // namespace tandem
