// Random stored matrices of every format, and helpers to run one op.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"

namespace tandem::test {

// A stored matrix with the memory it views.
struct OwnedMatrix {
  StoredMatrix matrix;
  std::vector<std::byte> data, scales, biases;

  void link() {
    matrix.data = data;
    matrix.scales = scales;
    matrix.biases = biases;
  }
};

struct Format {
  WeightFormat format;
  int bits = 0;
  int group_size = 0;
  DType scale_type = DType::kF16;

  std::string name() const {
    std::string text = weight_format_name(format);
    if (format == WeightFormat::kAffine) {
      text += std::to_string(bits) + "g" + std::to_string(group_size) + dtype_name(scale_type);
    }
    return text;
  }
};

inline std::vector<Format> quantised_formats() {
  std::vector<Format> formats = {
      {WeightFormat::kQ4_0}, {WeightFormat::kQ4_1}, {WeightFormat::kQ5_0}, {WeightFormat::kQ5_1},
      {WeightFormat::kQ8_0}, {WeightFormat::kQ4_K}, {WeightFormat::kQ5_K}, {WeightFormat::kQ6_K}};
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    formats.push_back({WeightFormat::kAffine, bits, 64, DType::kBF16});
  }
  formats.push_back({WeightFormat::kAffine, 4, 32, DType::kF16});
  formats.push_back({WeightFormat::kAffine, 4, 128, DType::kF32});
  return formats;
}

inline std::vector<Format> dense_formats() {
  return {{WeightFormat::kF32}, {WeightFormat::kF16}, {WeightFormat::kBF16}};
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float normal(float deviation = 1.0f) {
    return std::normal_distribution<float>(0.0f, deviation)(engine_);
  }
  uint32_t bits() { return engine_(); }
  int below(int limit) { return static_cast<int>(engine_() % static_cast<uint32_t>(limit)); }
  std::vector<float> normals(int64_t count, float deviation = 1.0f) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(deviation);
    return values;
  }

 private:
  std::mt19937 engine_;
};

inline void put(std::vector<std::byte>& bytes, size_t at, DType type, float value) {
  const uint16_t half = type == DType::kBF16 ? f32_to_bf16(value) : f32_to_f16(value);
  if (type == DType::kF32) {
    std::memcpy(bytes.data() + at, &value, 4);
  } else {
    std::memcpy(bytes.data() + at, &half, 2);
  }
}

// Any bytes are valid codes; only the floating-point scales must be sane.
inline OwnedMatrix random_matrix(const Format& format, int64_t rows, int64_t cols, Random& random) {
  OwnedMatrix owned;
  StoredMatrix& m = owned.matrix;
  m.name = format.name();
  m.format = format.format;
  m.rows = rows;
  m.cols = cols;
  const auto fill = [&](std::vector<std::byte>& bytes, int64_t count) {
    bytes.resize(count);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random.bits());
  };
  if (format.format == WeightFormat::kAffine) {
    m.bits = format.bits;
    m.group_size = format.group_size;
    m.scale_type = format.scale_type;
    fill(owned.data, rows * cols * format.bits / 8);
    const int64_t groups = rows * cols / format.group_size;
    const int64_t size = dtype_bytes(format.scale_type);
    owned.scales.resize(groups * size);
    owned.biases.resize(groups * size);
    for (int64_t i = 0; i < groups; i++) {
      put(owned.scales, i * size, format.scale_type, random.normal(0.01f));
      put(owned.biases, i * size, format.scale_type, random.normal(0.05f));
    }
    owned.link();
    return owned;
  }
  const int64_t columns = block_columns(format.format);
  const int64_t block = block_bytes(format.format);
  const int64_t blocks = rows * cols / columns;
  fill(owned.data, blocks * block);
  for (int64_t i = 0; i < blocks; i++) {
    const size_t at = i * block;
    const float scale = 0.01f + 0.001f * static_cast<float>(random.below(10));
    switch (format.format) {
      case WeightFormat::kF32: put(owned.data, at, DType::kF32, random.normal(0.05f)); break;
      case WeightFormat::kF16: put(owned.data, at, DType::kF16, random.normal(0.05f)); break;
      case WeightFormat::kBF16: put(owned.data, at, DType::kBF16, random.normal(0.05f)); break;
      case WeightFormat::kQ6_K: put(owned.data, at + 208, DType::kF16, scale * 0.01f); break;
      case WeightFormat::kQ4_K:
      case WeightFormat::kQ5_K:
        put(owned.data, at, DType::kF16, scale * 0.05f);
        put(owned.data, at + 2, DType::kF16, scale * 0.1f);
        break;
      case WeightFormat::kQ4_1:
      case WeightFormat::kQ5_1: put(owned.data, at + 2, DType::kF16, -8 * scale); [[fallthrough]];
      default: put(owned.data, at, DType::kF16, scale);
    }
  }
  owned.link();
  return owned;
}

// One token a row, position 0: what ops that mix no tokens need. All generated, or
// those of a prompt that `prompt` names.
struct FlatStep {
  std::vector<int32_t> tokens, positions, rows, starts, prompt_length;
  Step step;

  explicit FlatStep(int64_t n, const std::vector<bool>& prompt = {}) {
    for (int32_t i = 0; i < n; i++) {
      tokens.push_back(0);
      positions.push_back(0);
      rows.push_back(i);
      starts.push_back(i);
    }
    starts.push_back(static_cast<int32_t>(n));
    step.tokens = tokens;
    step.positions = positions;
    step.token_row = rows;
    step.row_start = starts;
    if (prompt.empty()) return;
    for (const bool is_prompt : prompt) prompt_length.push_back(is_prompt);
    step.prompt_length = prompt_length;
  }
};

inline std::unique_ptr<Backend> backend(cpu::Isa isa, Precision precision, int threads = 2) {
  return std::make_unique<cpu::CpuBackend>(
      BackendOptions{.precision = precision, .threads = threads}, isa);
}

// Floats as a tensor of the step: the media embeddings of n tokens.
inline Tensor tensor(Backend& backend, const std::vector<float>& values, int64_t n) {
  const int64_t cols = static_cast<int64_t>(values.size()) / n;
  static const std::vector<std::byte> zeros(1 << 18);
  StoredMatrix table;
  table.name = "zeros";
  table.rows = 1;
  table.cols = cols;
  table.data = zeros;
  const Weight weight = backend.load({&table, 1});
  FlatStep flat(n);
  std::vector<int32_t> tokens(flat.rows);
  flat.step.embeddings = values;
  flat.step.embedding_token = tokens;
  return backend.embed(weight, 1.0f, flat.step);
}

inline std::vector<float> floats(Backend& backend, const Tensor& x) {
  const auto view = backend.read(x);
  return {view.begin(), view.end()};
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace tandem::test
