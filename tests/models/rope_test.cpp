#include "nn/rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"

using namespace tandem;

TEST_CASE("plain rotary frequencies fall by a constant ratio from 1") {
  const Rope rope = make_rope({.dims = 8, .theta = 10000});
  REQUIRE(rope.inv_freq.size() == 4);
  for (int i = 0; i < 4; ++i) CHECK(rope.inv_freq[i] == doctest::Approx(std::pow(10.0, -i)));
}

TEST_CASE("linear scaling divides every frequency") {
  const Rope rope = make_rope({.type = "linear", .dims = 4, .theta = 100, .factor = 4});
  CHECK(rope.inv_freq[0] == doctest::Approx(0.25));
  CHECK(rope.inv_freq[1] == doctest::Approx(0.025));
}

TEST_CASE("llama3 scaling keeps short waves, divides long ones and blends between") {
  const RopeConfig config{.type = "llama3",
                          .dims = 128,
                          .theta = 500000,
                          .factor = 8,
                          .low_freq_factor = 1,
                          .high_freq_factor = 4,
                          .original_max_positions = 8192};
  const Rope scaled = make_rope(config);
  const Rope plain = make_rope({.dims = 128, .theta = 500000});
  CHECK(scaled.inv_freq.front() == plain.inv_freq.front());
  CHECK(scaled.inv_freq.back() == doctest::Approx(plain.inv_freq.back() / 8));
  bool blended = false;
  for (size_t i = 0; i < 64; ++i) {
    CHECK(scaled.inv_freq[i] <= plain.inv_freq[i]);
    const double ratio = plain.inv_freq[i] / scaled.inv_freq[i];
    blended |= ratio > 1.01 && ratio < 7.9;
  }
  CHECK(blended);
}

TEST_CASE("an unknown rope scaling is refused by name") {
  CHECK_THROWS_WITH_AS(make_rope({.type = "spiral", .dims = 4}), doctest::Contains("spiral"),
                       Error);
}

TEST_CASE("given divisors must fit the number of frequencies") {
  CHECK_THROWS_AS(make_rope({.dims = 8, .divisors = {1, 2}}), Error);
  CHECK(make_rope({.dims = 4, .theta = 100, .divisors = {2, 4}}).inv_freq[1] ==
        doctest::Approx(0.025));
}
