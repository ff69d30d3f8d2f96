#include "backend/stored.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

using namespace tandem;

TEST_CASE("every f16 value survives the way through f32") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      CHECK(std::isnan(f16_to_f32(f32_to_f16(value))));
    } else {
      REQUIRE(f32_to_f16(value) == bits);
    }
  }
}

TEST_CASE("f32 is rounded to the nearest half, ties to even") {
  CHECK(f32_to_f16(1.0f + 0x1p-11f) == f32_to_f16(1.0f));
  CHECK(f32_to_f16(1.0f + 3 * 0x1p-11f) == f32_to_f16(1.0f + 2 * 0x1p-10f));
  CHECK(f32_to_f16(65519.0f) == f32_to_f16(65504.0f));
  CHECK(f16_to_f32(f32_to_f16(65520.0f)) == INFINITY);
  CHECK(f16_to_f32(f32_to_f16(0x1p-25f)) == 0.0f);
  CHECK(f32_to_bf16(1.0f + 0x1p-8f) == f32_to_bf16(1.0f));
  CHECK(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

TEST_CASE("an affine row of 3 bits reads codes across byte borders") {
  // codes 0..7 repeated, little-endian bit stream: 24 bits make 8 codes.
  uint8_t codes[12];
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = 0 | 1 << 3 | 2 << 6 | 3 << 9 | 4 << 12 | 5 << 15 | 6 << 18 | 7 << 21;
    codes[3 * i] = word & 255, codes[3 * i + 1] = word >> 8 & 255, codes[3 * i + 2] = word >> 16;
  }
  const float scale = 0.5f, bias = -1.0f;
  StoredMatrix m{.format = WeightFormat::kAffine,
                 .rows = 1,
                 .cols = 32,
                 .bits = 3,
                 .group_size = 32,
                 .scale_type = DType::kF32};
  m.data = std::as_bytes(std::span(codes));
  m.scales = std::as_bytes(std::span(&scale, 1));
  m.biases = std::as_bytes(std::span(&bias, 1));
  float out[32];
  dequantize_row(m, 0, out);
  for (int c = 0; c < 32; ++c) CHECK(out[c] == 0.5f * static_cast<float>(c % 8) - 1.0f);
}

TEST_CASE("a row order picks stored rows") {
  const float values[] = {1, 2, 3, 4};
  StoredMatrix m{.format = WeightFormat::kF32, .rows = 2, .cols = 2, .row_order = {1, 0}};
  m.data = std::as_bytes(std::span(values));
  float out[2];
  dequantize_row(m, 0, out);
  CHECK(out[0] == 3.0f);
}
