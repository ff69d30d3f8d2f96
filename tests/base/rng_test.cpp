#include "base/rng.h"

#include <doctest/doctest.h>

using namespace tandem;

// Vectors published with the paper's own library (kat_vectors, philox4x32 10).
TEST_CASE("philox gives the published answers") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("draws lie in [0, 1) and each part of their key matters") {
  const double draw = uniform_draw(1, 0, 0);
  CHECK(draw >= 0);
  CHECK(draw < 1);
  CHECK(uniform_draw(1, 0, 0) == draw);
  CHECK(uniform_draw(2, 0, 0) != draw);
  CHECK(uniform_draw(uint64_t{1} << 32 | 1, 0, 0) != draw);
  CHECK(uniform_draw(1, 1, 0) != draw);
  CHECK(uniform_draw(1, 0, 1) != draw);
}
