#include "backend/mlx/rotary.h"

#include <cmath>

namespace tandem::mlx_backend {
namespace {

mx::array last_axis(const mx::array& x, int begin, int end) {
  mx::Shape start(x.ndim(), 0), stop = x.shape();
  start.back() = begin;
  stop.back() = end;
  return mx::slice(x, start, stop);
}

struct Pair {
  mx::array first;
  mx::array second;
};

Pair turn(const mx::array& a, const mx::array& b, const RotaryTable& t) {
  return {mx::subtract(mx::multiply(a, t.cos), mx::multiply(b, t.sin)),
          mx::add(mx::multiply(b, t.cos), mx::multiply(a, t.sin))};
}

}  // namespace

RotaryTable rotary_table(const Rope& rope, std::span<const int32_t> positions) {
  const size_t half = rope.inv_freq.size();
  std::vector<float> cosines, sines;
  cosines.reserve(positions.size() * half);
  sines.reserve(positions.size() * half);
  for (const int32_t position : positions) {
    for (const float frequency : rope.inv_freq) {
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(static_cast<float>(std::cos(double{angle})) * rope.cos_sin_scale);
      sines.push_back(static_cast<float>(std::sin(double{angle})) * rope.cos_sin_scale);
    }
  }
  const mx::Shape shape = {dim(static_cast<int64_t>(positions.size())), 1,
                           dim(static_cast<int64_t>(half))};
  return {host_array(cosines, shape), host_array(sines, shape)};
}

mx::array rotate(const mx::array& x, const RotaryTable& table, bool interleaved) {
  const int half = table.cos.shape(2), width = x.shape(2);
  INVARIANT(2 * half <= width);
  mx::array turned = x;
  if (interleaved) {
    const mx::Shape pairs = {x.shape(0), x.shape(1), half, 2};
    const mx::array paired = mx::reshape(last_axis(x, 0, 2 * half), pairs);
    const mx::Shape flat = {x.shape(0), x.shape(1), half};
    const Pair p = turn(mx::reshape(last_axis(paired, 0, 1), flat),
                        mx::reshape(last_axis(paired, 1, 2), flat), table);
    turned = mx::reshape(mx::stack({p.first, p.second}, -1), {x.shape(0), x.shape(1), 2 * half});
  } else {
    const Pair p = turn(last_axis(x, 0, half), last_axis(x, half, 2 * half), table);
    turned = mx::concatenate({p.first, p.second}, -1);
  }
  if (2 * half == width) return turned;
  return mx::concatenate({turned, last_axis(x, 2 * half, width)}, -1);
}

}  // namespace tandem::mlx_backend
