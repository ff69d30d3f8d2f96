#include "backend/mlx/weights.h"

#include "backend/mlx/affine_planes.h"

namespace tandem::mlx_backend {
namespace {

mx::Dtype product_type(const Numerics& numerics) {
  return numerics.half ? mx::float16 : mx::float32;
}

// Dense rows as they are in the file, in file order or row_order.
template <typename T>
mx::array raw_rows(const StoredMatrix& m, mx::Dtype dtype) {
  std::vector<T> values(m.rows * m.cols);
  const int64_t row_bytes = m.cols * static_cast<int64_t>(sizeof(T));
  for (int64_t row = 0; row < m.rows; ++row) {
    std::memcpy(&values[row * m.cols], m.data.data() + m.stored_row(row) * row_bytes, row_bytes);
  }
  const mx::array bits = host_array(values, {dim(m.rows), dim(m.cols)});
  return dtype.size() == 2 ? mx::view(bits, dtype) : bits;
}

mx::array dense_rows(const StoredMatrix& m, const Numerics& numerics) {
  const mx::Dtype target = product_type(numerics);
  if (m.format == WeightFormat::kF16) return resident(raw_rows<uint16_t>(m, mx::float16), target);
  if (m.format == WeightFormat::kBF16) return resident(raw_rows<uint16_t>(m, mx::bfloat16), target);
  if (m.format == WeightFormat::kF32) return resident(raw_rows<float>(m, mx::float32), target);
  std::vector<float> values(m.rows * m.cols);
  for (int64_t row = 0; row < m.rows; ++row) dequantize_row(m, row, &values[row * m.cols]);
  return resident(host_array(values, {dim(m.rows), dim(m.cols)}), target);
}

Segment dense_segment(std::span<const StoredMatrix> parts, const Numerics& numerics) {
  std::vector<mx::array> pieces;
  for (const StoredMatrix& part : parts) pieces.push_back(dense_rows(part, numerics));
  if (pieces.size() == 1) return {pieces[0], {}, {}, 0, 0};
  const mx::array joined = mx::concatenate(pieces, 0);
  mx::eval(joined);
  return {joined, {}, {}, 0, 0};
}

Segment affine_segment(std::span<const StoredMatrix> parts, const Numerics& numerics) {
  AffinePlanes planes;
  planes.bits = affine_bits(parts[0]);
  planes.group_size = affine_group_size(parts[0]);
  planes.cols = parts[0].cols;
  for (const StoredMatrix& part : parts) append_rows(part, planes);
  const int rows = dim(planes.rows);
  const mx::Shape groups = {rows, dim(planes.cols / planes.group_size)};
  const mx::Dtype type = product_type(numerics);
  return {
      resident(host_array(planes.codes, {rows, dim(planes.cols * planes.bits / 32)}), mx::uint32),
      resident(host_array(planes.scales, groups), type),
      resident(host_array(planes.biases, groups), type), planes.bits, planes.group_size};
}

// Whether two parts may lie in one segment.
bool same_form(const StoredMatrix& a, const StoredMatrix& b) {
  if (has_affine_form(a) != has_affine_form(b)) return false;
  return !has_affine_form(a) ||
         (affine_bits(a) == affine_bits(b) && affine_group_size(a) == affine_group_size(b));
}

mx::array expand(const Segment& s) {
  return mx::dequantize(s.w, *s.scales, s.biases, s.group_size, s.bits);
}

// x has the product's type already.
mx::array product(const mx::array& x, const Segment& s, const Numerics& numerics) {
  if (!s.scales) return mx::matmul(x, mx::transpose(s.w));
  if (numerics.expand_from_rows > 0 && x.shape(0) >= numerics.expand_from_rows) {
    return mx::matmul(x, mx::transpose(expand(s)));
  }
  return mx::quantized_matmul(x, s.w, *s.scales, s.biases, true, s.group_size, s.bits);
}

}  // namespace

int64_t MlxWeight::bytes() const {
  int64_t total = 0;
  for (const Segment& s : segments) {
    total += static_cast<int64_t>(s.w.nbytes());
    if (s.scales) total += static_cast<int64_t>(s.scales->nbytes() + s.biases->nbytes());
  }
  if (bias) total += static_cast<int64_t>(bias->nbytes());
  if (vector) total += static_cast<int64_t>(vector->nbytes());
  return total;
}

const MlxWeight& storage(const Weight& weight) {
  const auto* mine = dynamic_cast<const MlxWeight*>(weight.storage.get());
  INVARIANT(mine != nullptr);
  return *mine;
}

Weight load_matrix(std::span<const StoredMatrix> parts, std::span<const float> bias,
                   const Numerics& numerics) {
  INVARIANT(!parts.empty());
  auto weight = std::make_shared<MlxWeight>();
  Weight handle{0, parts[0].cols, weight};
  for (size_t begin = 0, end; begin < parts.size(); begin = end) {
    for (end = begin + 1; end < parts.size() && same_form(parts[begin], parts[end]);) ++end;
    const auto run = parts.subspan(begin, end - begin);
    for (const StoredMatrix& part : run) {
      INVARIANT(part.cols == handle.cols);
      handle.rows += part.rows;
    }
    weight->segments.push_back(has_affine_form(run[0]) ? affine_segment(run, numerics)
                                                       : dense_segment(run, numerics));
    mx::clear_cache();
  }
  INVARIANT(bias.empty() || static_cast<int64_t>(bias.size()) == handle.rows);
  if (!bias.empty()) {
    weight->bias = resident(mx::array(bias.data(), {dim(handle.rows)}), mx::float32);
  }
  return handle;
}

Weight load_vector(std::span<const float> values) {
  auto weight = std::make_shared<MlxWeight>();
  const auto size = static_cast<int64_t>(values.size());
  weight->vector = resident(mx::array(values.data(), {dim(size)}), mx::float32);
  return {1, size, weight};
}

mx::array multiply(const mx::array& x, const MlxWeight& weight, const Numerics& numerics) {
  const mx::array in =
      numerics.half ? mx::astype(mx::multiply(x, mx::array(kHalfScale)), mx::float16) : x;
  std::vector<mx::array> pieces;
  for (const Segment& s : weight.segments) pieces.push_back(product(in, s, numerics));
  mx::array y = pieces.size() == 1 ? pieces[0] : mx::concatenate(pieces, -1);
  if (numerics.half) y = mx::multiply(mx::astype(y, mx::float32), mx::array(1.0f / kHalfScale));
  return weight.bias ? mx::add(y, *weight.bias) : y;
}

mx::array lookup(const MlxWeight& weight, const mx::array& ids) {
  INVARIANT(weight.segments.size() == 1);
  const Segment& s = weight.segments[0];
  const mx::array rows = mx::take(s.w, ids, 0);
  if (!s.scales) return mx::astype(rows, mx::float32);
  return mx::dequantize(rows, mx::astype(mx::take(*s.scales, ids, 0), mx::float32),
                        mx::astype(mx::take(*s.biases, ids, 0), mx::float32), s.group_size, s.bits);
}

}  // namespace tandem::mlx_backend
