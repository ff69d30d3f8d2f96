#include "backend/mlx/kv_codec.h"

#include <cmath>
#include <limits>

#include "backend/turbo.h"

namespace tandem::mlx_backend {
namespace {

mx::Dtype dense_type(KvCodec codec) {
  switch (codec) {
    case KvCodec::kF32: return mx::float32;
    case KvCodec::kF16: return mx::float16;
    default: INVARIANT(codec == KvCodec::kBF16); return mx::bfloat16;
  }
}

mx::array constant(float value) { return mx::array(value); }

// A shape with another last axis.
mx::Shape with_last(mx::Shape shape, std::initializer_list<int> last) {
  shape.pop_back();
  shape.insert(shape.end(), last.begin(), last.end());
  return shape;
}

// Codes uint8 [..., dim] to little-endian bit streams [..., dim * bits / 8].
mx::array pack(const mx::array& codes, int bits) {
  if (bits == 8) return codes;
  const int dim = codes.shape(-1);
  const mx::array places = mx::arange(0, bits, mx::uint8);
  mx::array each =
      mx::bitwise_and(mx::right_shift(mx::expand_dims(codes, -1), places), mx::array(1, mx::uint8));
  each = mx::reshape(each, with_last(codes.shape(), {dim * bits / 8, 8}));
  const mx::array bytes = mx::left_shift(each, mx::arange(0, 8, mx::uint8));
  return mx::astype(mx::sum(bytes, -1), mx::uint8);
}

// And back, as uint16.
mx::array unpack(const mx::array& stream, int bits, int dim) {
  if (bits == 8) return mx::astype(stream, mx::uint16);
  const int bytes = dim * bits / 8;
  std::vector<int32_t> low(dim), high(dim);
  std::vector<uint16_t> shift(dim);
  for (int i = 0; i < dim; ++i) {
    low[i] = i * bits / 8;
    high[i] = std::min(low[i] + 1, bytes - 1);
    shift[i] = static_cast<uint16_t>(i * bits % 8);
  }
  const auto part = [&](const std::vector<int32_t>& index) {
    return mx::astype(mx::take(stream, host_array(index, {dim}), -1), mx::uint16);
  };
  const mx::array pairs =
      mx::bitwise_or(part(low), mx::left_shift(part(high), mx::array(8, mx::uint16)));
  return mx::bitwise_and(mx::right_shift(pairs, host_array(shift, {dim})),
                         mx::array((1 << bits) - 1, mx::uint16));
}

// 1 / scale, 0 where there is none.
mx::array inverse(const mx::array& scale) {
  const mx::array rounded = mx::astype(scale, mx::float32);
  return mx::where(mx::greater(rounded, constant(0)), mx::divide(constant(1), rounded),
                   constant(0));
}

std::vector<mx::array> encode_affine(const mx::array& x, const PlaneFormat& f) {
  const int dim = x.shape(-1);
  const mx::array groups = mx::reshape(x, with_last(x.shape(), {dim / f.group, f.group}));
  const mx::array finite = mx::all(mx::isfinite(groups), -1, true);
  const mx::array low = mx::min(groups, -1, true);
  const auto highest = static_cast<float>((1 << f.bits) - 1);
  mx::array scale = mx::divide(mx::subtract(mx::max(groups, -1, true), low), constant(highest));
  scale = mx::astype(mx::where(finite, scale, constant(NAN)), mx::float16);
  const mx::array bias = mx::astype(low, mx::float16);
  mx::array codes =
      mx::multiply(mx::subtract(groups, mx::astype(bias, mx::float32)), inverse(scale));
  codes = mx::round(mx::clip(codes, constant(0), constant(highest)));
  codes = mx::where(finite, codes, constant(0));
  codes = mx::reshape(mx::astype(codes, mx::uint8), x.shape());
  return {pack(codes, f.bits), mx::squeeze(scale, -1), mx::squeeze(bias, -1)};
}

mx::array decode_affine(const std::vector<mx::array>& parts, const PlaneFormat& f, int dim) {
  const mx::array codes = mx::astype(unpack(parts[0], f.bits, dim), mx::float32);
  const mx::array groups = mx::reshape(codes, with_last(codes.shape(), {dim / f.group, f.group}));
  const auto of_group = [](const mx::array& part) {
    return mx::expand_dims(mx::astype(part, mx::float32), -1);
  };
  return mx::reshape(mx::add(mx::multiply(groups, of_group(parts[1])), of_group(parts[2])),
                     codes.shape());
}

// The matrix M [dim, dim] with M x = H (s * x) / sqrt(dim).
mx::array turning(int dim) {
  std::vector<float> m(static_cast<size_t>(dim) * dim);
  const float factor = 1.0f / std::sqrt(static_cast<float>(dim));
  for (int r = 0; r < dim; ++r) {
    for (int c = 0; c < dim; ++c) {
      const bool odd = __builtin_popcount(static_cast<unsigned>(r & c)) & 1;
      m[static_cast<size_t>(r) * dim + c] = (odd ? -factor : factor) * turbo_signs()[c];
    }
  }
  return host_array(m, {dim, dim});
}

std::vector<mx::array> encode_turbo(const mx::array& x, const PlaneFormat& f) {
  const int dim = x.shape(-1);
  const mx::array y = mx::matmul(x, mx::transpose(turning(dim)));
  const mx::array groups = mx::reshape(y, with_last(x.shape(), {dim / f.group, f.group}));
  const mx::array scale = mx::astype(mx::sqrt(mx::mean(mx::square(groups), -1, true)), mx::float16);
  const mx::array unit = mx::expand_dims(mx::multiply(groups, inverse(scale)), -1);
  const mx::array borders(turbo_borders(f.bits), {(1 << f.bits) - 1}, mx::float32);
  mx::array codes = mx::sum(mx::less(borders, unit), -1);
  codes = mx::reshape(mx::astype(codes, mx::uint8), x.shape());
  return {pack(codes, f.bits), mx::squeeze(scale, -1)};
}

mx::array decode_turbo(const std::vector<mx::array>& parts, const PlaneFormat& f, int dim) {
  const mx::array levels(turbo_levels(f.bits), {1 << f.bits}, mx::float32);
  const mx::array y = mx::take(levels, mx::astype(unpack(parts[0], f.bits, dim), mx::int32));
  const mx::array groups = mx::reshape(y, with_last(y.shape(), {dim / f.group, f.group}));
  const mx::array scale = mx::expand_dims(mx::astype(parts[1], mx::float32), -1);
  return mx::matmul(mx::reshape(mx::multiply(groups, scale), y.shape()), turning(dim));
}

}  // namespace

std::vector<mx::array> empty_parts(const PlaneFormat& f, int heads, int dim) {
  if (f.group == 0) return {mx::zeros({0, kPageTokens, heads, dim}, dense_type(f.codec))};
  const int bytes = mlx_backend::dim(f.code_bytes(dim)), groups = dim / f.group;
  std::vector<mx::array> parts = {mx::zeros({0, kPageTokens, heads, bytes}, mx::uint8),
                                  mx::zeros({0, kPageTokens, heads, groups}, mx::float16)};
  if (f.codec == KvCodec::kAffine) parts.push_back(parts[1]);
  return parts;
}

std::vector<mx::array> encode(const mx::array& x, const PlaneFormat& f) {
  if (f.group == 0) return {mx::astype(x, dense_type(f.codec))};
  return f.codec == KvCodec::kAffine ? encode_affine(x, f) : encode_turbo(x, f);
}

mx::array decode(const std::vector<mx::array>& parts, const PlaneFormat& f, int dim) {
  if (f.group == 0) return parts[0];
  return f.codec == KvCodec::kAffine ? decode_affine(parts, f, dim) : decode_turbo(parts, f, dim);
}

}  // namespace tandem::mlx_backend
