#include "backend/turbo.h"

#include <array>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace tandem {
namespace {

// The positive half of the levels for N(0, 1): the fixed point of Lloyd's
// iteration, found by Newton's method in double precision.
constexpr float kHalf2[2] = {0.45278003f, 1.5104176f};
constexpr float kHalf3[4] = {0.24509418f, 0.75600528f, 1.3439093f, 2.1519457f};
constexpr float kHalf4[8] = {0.12839503f, 0.3880483f, 0.65675912f, 0.94234046f,
                             1.2562312f,  1.6180464f, 2.0690172f,  2.7325896f};
constexpr float kHalf5[16] = {0.06588966f, 0.19805183f, 0.33137831f, 0.46669952f,
                              0.60493362f, 0.7471357f,  0.89456512f, 1.0487833f,
                              1.2118044f,  1.3863403f,  1.5762281f,  1.7872332f,
                              2.0287284f,  2.3177394f,  2.6911196f,  3.2607325f};
constexpr float kHalf8[128] = {
    0.0084461932f, 0.025339383f, 0.042234984f, 0.059134604f, 0.076039856f, 0.092952355f,
    0.10987372f,   0.12680558f,  0.14374957f,  0.16070732f,  0.1776805f,   0.19467075f,
    0.21167976f,   0.2287092f,   0.24576078f,  0.26283622f,  0.27993724f,  0.29706559f,
    0.31422304f,   0.33141138f,  0.34863242f,  0.365888f,    0.38317996f,  0.40051021f,
    0.41788064f,   0.43529321f,  0.45274988f,  0.47025266f,  0.4878036f,   0.50540476f,
    0.52305828f,   0.5407663f,   0.55853102f,  0.5763547f,   0.59423962f,  0.61218813f,
    0.63020261f,   0.64828553f,  0.66643939f,  0.68466676f,  0.70297027f,  0.72135262f,
    0.73981659f,   0.75836501f,  0.77700081f,  0.79572701f,  0.81454668f,  0.83346301f,
    0.85247928f,   0.87159887f,  0.89082527f,  0.91016206f,  0.92961296f,  0.94918181f,
    0.96887258f,   0.98868937f,  1.0086364f,   1.0287182f,   1.0489392f,   1.0693042f,
    1.0898181f,    1.110486f,    1.1313133f,   1.1523054f,   1.1734682f,   1.1948076f,
    1.21633f,      1.2380418f,   1.2599499f,   1.2820615f,   1.304384f,    1.3269253f,
    1.3496937f,    1.3726976f,   1.3959463f,   1.4194493f,   1.4432166f,   1.4672587f,
    1.491587f,     1.5162131f,   1.5411497f,   1.5664098f,   1.5920076f,   1.6179578f,
    1.6442765f,    1.6709804f,   1.6980875f,   1.725617f,    1.7535894f,   1.7820269f,
    1.8109531f,    1.8403933f,   1.8703751f,   1.9009281f,   1.9320842f,   1.9638784f,
    1.9963485f,    2.0295357f,   2.0634852f,   2.0982465f,   2.1338741f,   2.1704282f,
    2.2079755f,    2.2465899f,   2.2863545f,   2.3273619f,   2.3697171f,   2.4135387f,
    2.4589621f,    2.5061426f,   2.5552594f,   2.6065215f,   2.660174f,    2.7165076f,
    2.7758707f,    2.8386858f,   2.9054729f,   2.9768821f,   3.053742f,    3.1371325f,
    3.2285002f,    3.3298485f,   3.4440717f,   3.575588f,    3.7316663f,   3.9256378f,
    4.1865954f,    4.6035356f};
struct Quantiser {
  float levels[256];
  float borders[256];
};

template <size_t kCount>
constexpr Quantiser mirrored(const float (&half)[kCount]) {
  Quantiser q{};
  for (size_t i = 0; i < kCount; ++i) {
    q.levels[kCount + i] = half[i];
    q.levels[kCount - 1 - i] = -half[i];
  }
  for (size_t i = 0; i + 1 < 2 * kCount; ++i) {
    q.borders[i] = 0.5f * (q.levels[i] + q.levels[i + 1]);
  }
  for (size_t i = 2 * kCount - 1; i < 256; ++i) {
    q.borders[i] = std::numeric_limits<float>::infinity();
  }
  return q;
}

constexpr Quantiser kQuantiser2 = mirrored(kHalf2);
constexpr Quantiser kQuantiser3 = mirrored(kHalf3);
constexpr Quantiser kQuantiser4 = mirrored(kHalf4);
constexpr Quantiser kQuantiser5 = mirrored(kHalf5);
constexpr Quantiser kQuantiser8 = mirrored(kHalf8);

const Quantiser& quantiser(int bits) {
  switch (bits) {
    case 2: return kQuantiser2;
    case 3: return kQuantiser3;
    case 4: return kQuantiser4;
    case 5: return kQuantiser5;
    default: INVARIANT(bits == 8); return kQuantiser8;
  }
}

// The top bits of a Weyl sequence, mixed; source: SplitMix64.
constexpr std::array<float, kTurboDimMax> make_signs() {
  std::array<float, kTurboDimMax> signs{};
  uint64_t state = 0x54616e64656d;
  for (float& sign : signs) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    sign = (z ^ (z >> 31)) >> 63 ? -1.0f : 1.0f;
  }
  return signs;
}

constexpr std::array<float, kTurboDimMax> kSigns = make_signs();

}  // namespace

const float* turbo_levels(int bits) { return quantiser(bits).levels; }
const float* turbo_borders(int bits) { return quantiser(bits).borders; }
std::span<const float, kTurboDimMax> turbo_signs() { return kSigns; }

}  // namespace tandem
