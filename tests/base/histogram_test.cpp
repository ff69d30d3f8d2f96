#include "base/histogram.h"

#include <doctest/doctest.h>

using namespace tandem;

TEST_CASE("a bucket counts what is at most its bound, the last one all above") {
  Histogram histogram({1, 10});
  for (const double value : {0.5, 1.0, 1.5, 10.0, 11.0, 1e9}) histogram.observe(value);
  CHECK(histogram.counts() == std::vector<int64_t>{2, 2, 2});
  CHECK(histogram.sum() == doctest::Approx(1e9 + 24));
}

TEST_CASE("logarithmic bounds are round numbers from low to high") {
  const auto bounds = log_bounds(0.001, 1, 3);
  const double expected[] = {0.001, 0.0022, 0.0046, 0.01, 0.022, 0.046, 0.1, 0.22, 0.46, 1};
  REQUIRE(bounds.size() == std::size(expected));
  for (size_t i = 0; i < bounds.size(); ++i) CHECK(bounds[i] == doctest::Approx(expected[i]));
}
