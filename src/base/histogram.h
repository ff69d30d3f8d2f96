// Counts of observations by size, for Prometheus: bucket i counts what is at
// most bounds[i], the last one everything above. One thread observes; any may
// read meanwhile, and sees each observation at most once and soon.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

class Histogram {
 public:
  // `bounds` ascending.
  explicit Histogram(std::vector<double> bounds);

  void observe(double value);

  std::span<const double> bounds() const { return bounds_; }
  std::vector<int64_t> counts() const;  // one more than bounds
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<int64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

// `steps` bounds for each power of ten in [low, high], evenly spaced on a
// logarithmic scale and rounded to two digits.
std::vector<double> log_bounds(double low, double high, int steps);

}  // namespace tandem
