// Counter-based randomness: a pure function of (key, counter), so a draw does
// not depend on how many draws others have made.
// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011
// (Philox4x32-10).
#pragma once

#include <array>
#include <cstdint>

namespace tandem {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The draw for one token of one choice of one request: uniform in [0, 1), 53 bits.
constexpr double uniform_draw(uint64_t seed, uint32_t choice, uint64_t position) {
  const PhiloxBlock block = philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{block[0]} << 32 | block[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace tandem
