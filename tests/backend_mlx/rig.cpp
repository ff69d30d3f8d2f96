#include "backend_mlx/rig.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace tandem::test {
namespace {

using Random = std::mt19937;

float uniform(Random& random, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random);
}

void put_f16(uint8_t* at, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, sizeof bits);
}

void put_float(std::vector<uint8_t>& bytes, DType type, float value) {
  const size_t at = bytes.size();
  bytes.resize(at + dtype_bytes(type));
  if (type == DType::kF32) {
    std::memcpy(&bytes[at], &value, 4);
    return;
  }
  const uint16_t bits = type == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  std::memcpy(&bytes[at], &bits, 2);
}

// Offsets of the f16 fields of a block; every other byte may be anything.
std::vector<int> f16_fields(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K: return {0, 2};
    case WeightFormat::kQ6_K: return {208};
    default: return {0};
  }
}

float scale_size(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0: return 1.0f / 128;
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K: return 1.0f / 512;
    case WeightFormat::kQ6_K: return 1.0f / 2048;
    default: return 1.0f / 16;
  }
}

void fill_blocks(Stored& s, WeightFormat format, Random& random) {
  const int64_t bytes = block_bytes(format);
  s.data.resize(s.matrix.rows * (s.matrix.cols / block_columns(format)) * bytes);
  for (uint8_t& byte : s.data) byte = static_cast<uint8_t>(random());
  const float size = scale_size(format);
  for (size_t block = 0; block < s.data.size(); block += bytes) {
    for (const int field : f16_fields(format)) {
      put_f16(&s.data[block + field], uniform(random, -size, size));
    }
  }
}

void fill_dense(Stored& s, WeightFormat format, Random& random) {
  const DType type = format == WeightFormat::kF32   ? DType::kF32
                     : format == WeightFormat::kF16 ? DType::kF16
                                                    : DType::kBF16;
  for (int64_t i = 0; i < s.matrix.rows * s.matrix.cols; ++i) {
    put_float(s.data, type, uniform(random, -1, 1));
  }
}

void set_views(Stored& s) {
  s.matrix.data = std::as_bytes(std::span(s.data));
  s.matrix.scales = std::as_bytes(std::span(s.scales));
  s.matrix.biases = std::as_bytes(std::span(s.biases));
}

}  // namespace

Matrix random_matrix(int64_t rows, int64_t cols, uint32_t seed) {
  Random random(seed);
  Matrix m(rows, cols);
  for (double& value : m.values) value = uniform(random, -1, 1);
  return m;
}

Stored random_stored(WeightFormat format, int64_t rows, int64_t cols, uint32_t seed) {
  Random random(seed);
  Stored s;
  s.matrix.name = weight_format_name(format);
  s.matrix.format = format;
  s.matrix.rows = rows;
  s.matrix.cols = cols;
  if (block_columns(format) == 1) {
    fill_dense(s, format, random);
  } else {
    fill_blocks(s, format, random);
  }
  set_views(s);
  return s;
}

Stored random_affine(int bits, int group_size, DType scale_type, int64_t rows, int64_t cols,
                     uint32_t seed) {
  Random random(seed);
  Stored s;
  s.matrix.name = "affine";
  s.matrix.format = WeightFormat::kAffine;
  s.matrix.rows = rows;
  s.matrix.cols = cols;
  s.matrix.bits = bits;
  s.matrix.group_size = group_size;
  s.matrix.scale_type = scale_type;
  s.data.resize(rows * cols * bits / 8);
  for (uint8_t& byte : s.data) byte = static_cast<uint8_t>(random());
  for (int64_t group = 0; group < rows * cols / group_size; ++group) {
    put_float(s.scales, scale_type, uniform(random, 0.5f, 2.0f) / static_cast<float>(1 << bits));
    put_float(s.biases, scale_type, uniform(random, -1, 0));
  }
  set_views(s);
  return s;
}

Stored stored_f32(const Matrix& matrix) {
  Stored s;
  s.matrix.name = "f32";
  s.matrix.rows = matrix.rows;
  s.matrix.cols = matrix.cols;
  for (const double value : matrix.values)
    put_float(s.data, DType::kF32, static_cast<float>(value));
  set_views(s);
  return s;
}

Matrix expanded(const StoredMatrix& matrix) {
  Matrix m(matrix.rows, matrix.cols);
  std::vector<float> row(matrix.cols);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    dequantize_row(matrix, r, row.data());
    std::copy(row.begin(), row.end(), m.values.begin() + r * m.cols);
  }
  return m;
}

Matrix product(const Matrix& x, const Matrix& w, std::span<const float> bias) {
  Matrix y(x.rows, w.rows);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t o = 0; o < w.rows; ++o) {
      double sum = bias.empty() ? 0.0 : bias[o];
      for (int64_t c = 0; c < x.cols; ++c) sum += x.at(r, c) * w.at(o, c);
      y.at(r, o) = sum;
    }
  }
  return y;
}

double relative_error(std::span<const float> got, const Matrix& want) {
  if (got.size() != want.values.size()) return INFINITY;
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    worst = std::max(worst, std::abs(got[i] - want.values[i]));
    largest = std::max(largest, std::abs(want.values[i]));
  }
  return worst / largest;
}

StepOf StepOf::rows(const std::vector<Row>& rows) {
  StepOf s;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int32_t t = 0; t < rows[r].tokens; ++t) {
      s.tokens.push_back(0);
      s.positions.push_back(rows[r].first_position + t);
      s.token_row.push_back(static_cast<int32_t>(r));
    }
    s.row_start.push_back(static_cast<int32_t>(s.tokens.size()));
    s.prompt_length.push_back(1 << 30);
    s.pages.insert(s.pages.end(), rows[r].pages.begin(), rows[r].pages.end());
    s.page_start.push_back(static_cast<int32_t>(s.pages.size()));
  }
  return s;
}

StepOf& StepOf::with_activations(const Matrix& x) {
  embeddings = x.floats();
  embedding_token.clear();
  for (int32_t t = 0; t < static_cast<int32_t>(tokens.size()); ++t) embedding_token.push_back(t);
  return *this;
}

StepOf& StepOf::with_store(KvStore* store) {
  stores_.push_back(store);
  return *this;
}

Step StepOf::step() {
  tables_.assign(stores_.size(), BlockTable{pages, page_start});
  Step s;
  s.tokens = tokens;
  s.positions = positions;
  s.token_row = token_row;
  s.row_start = row_start;
  s.prompt_length = prompt_length;
  s.kv = stores_;
  s.tables = tables_;
  s.outputs = outputs;
  s.embeddings = embeddings;
  s.embedding_token = embedding_token;
  s.both_ways = both_ways;
  return s;
}

Tensor input(Backend& backend, StepOf& step, const Matrix& x) {
  step.with_activations(x);
  const Stored zero = stored_f32(Matrix(1, x.cols));
  const Weight table = backend.load(std::span(&zero.matrix, 1));
  return backend.embed(table, 1.0f, step.step());
}

}  // namespace tandem::test
