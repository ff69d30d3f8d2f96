#include "backend/mlx/kv_codec.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "backend/kv_reference.h"
#include "backend_mlx/rig.h"

using namespace tandem;
using namespace tandem::test;
using namespace tandem::mlx_backend;

namespace {

// The share of elements that differ from plain loops by more than their rounding:
// those that lie on the border of two codes.
double share_off(const PlaneFormat& format, int dim) {
  constexpr int kTokens = 40, kHeads = 3;
  const std::vector<float> x = random_matrix(kTokens * kHeads, dim, 5).floats();
  const mx::array in(x.data(), {kTokens, kHeads, dim}, mx::float32);
  mx::array out = mx::contiguous(decode(encode(in, format), format, dim));
  mx::eval(out);
  int off = 0;
  for (size_t begin = 0; begin < x.size(); begin += dim) {
    const auto want = round_trip({x.begin() + begin, x.begin() + begin + dim}, format);
    double worst = 0;
    for (int i = 0; i < dim; ++i) {
      worst = std::max(worst, std::abs(out.data<float>()[begin + i] - want[i]));
    }
    off += worst > 1e-5;
  }
  return static_cast<double>(off) / (kTokens * kHeads * dim);
}

}  // namespace

TEST_CASE("every codec of keys and values reads as plain loops say") {
  for (const int bits : {2, 4, 5, 8}) {
    for (const int group : {32, 64}) {
      CAPTURE(bits);
      CHECK(share_off({KvCodec::kAffine, bits, group}, 64) < 5e-4);
    }
  }
  for (const int bits : {2, 3, 4, 5, 8}) {
    CAPTURE(bits);
    CHECK(share_off({KvCodec::kTurbo, bits, 32}, 64) < 5e-4);
    CHECK(share_off({KvCodec::kTurbo, bits, 32}, 128) < 5e-4);
  }
}

TEST_CASE("a coded plane takes the bytes that its format says") {
  for (const KvFormat& format : {kv_affine(8, 64), kv_affine(4, 32), kv_turbo(5, 3)}) {
    for (const PlaneFormat& plane : {k_plane_format(format), v_plane_format(format)}) {
      size_t bytes = 0;
      for (const mx::array& part : encode(mx::ones({1, 1, 128}), plane)) bytes += part.nbytes();
      CHECK(bytes == static_cast<size_t>(plane.token_bytes(128)));
    }
  }
}
