#include "backend/cpu/kernels/ref/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/tile.h"

namespace tandem::cpu::ref {
namespace {

float quantised_dot(const StoredMatrix& w, const TileFormat& format, int64_t row,
                    const Quantised& x) {
  float acc = 0;
  for (int64_t g = 0; g < w.cols / kGroupColumns; g++) {
    StoredGroup group{};
    read_group(w, row, g, group);
    const GroupFactors factors = group_factors(format, group);
    const int parts = format.halves() ? 2 : 1;
    int32_t code_sum = 0;
    for (int part = 0; part < parts; part++) {
      int32_t dot = 0;
      for (int i = part * kGroupColumns / parts; i < (part + 1) * kGroupColumns / parts; i++) {
        const int32_t code = x.codes[g * kGroupColumns + i];
        dot += (group.codes[i] - format.zero) * code;
        code_sum += code;
      }
      acc = std::fma(static_cast<float>(dot), factors.scale[part] * x.scale[g], acc);
    }
    if (!format.has_min) continue;
    acc = std::fma(factors.min, x.scale[g] * static_cast<float>(code_sum), acc);
  }
  return acc;
}

float float_dot(const std::vector<float>& w, const float* x) {
  float acc = 0;
  for (size_t k = 0; k < w.size(); k++) acc = std::fma(w[k], x[k], acc);
  return acc;
}

// To bf16, ties away from zero, and denormals to 0.
float as_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = std::isnan(x) ? 0x7fc00000 : (bits + 0x8000) & 0xffff0000;
  if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
  std::memcpy(&x, &bits, 4);
  return x;
}

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

float tile_dot(const std::vector<float>& w, const std::vector<float>& x) {
  float acc = 0;
  for (size_t k = 0; k < w.size(); k += kGroupColumns) {
    float even = 0;
    float odd = 0;
    for (size_t i = k; i < k + kGroupColumns; i += 2) {
      even = flushed(std::fma(x[i], w[i], even));
      odd = flushed(std::fma(x[i + 1], w[i + 1], odd));
    }
    acc = flushed(acc + flushed(even + odd));
  }
  return acc;
}

std::vector<float> weights_of(const StoredMatrix& w, const TileFormat& format, int64_t row) {
  std::vector<float> floats(w.cols);
  if (format.dense) {
    dequantize_row(w, row, floats.data());
    return floats;
  }
  for (int64_t g = 0; g < w.cols / kGroupColumns; g++) {
    StoredGroup group{};
    read_group(w, row, g, group);
    const GroupFactors factors = group_factors(format, group);
    for (int i = 0; i < kGroupColumns; i++) {
      floats[g * kGroupColumns + i] =
          std::fma(factors.scale[format.halves() ? i / 16 : 0],
                   static_cast<float>(group.codes[i] - format.zero), factors.min);
    }
  }
  return floats;
}

std::vector<float> padded_bf16(std::vector<float> values) {
  for (float& value : values) value = as_bf16(value);
  values.resize((values.size() + kGroupColumns - 1) / kGroupColumns * kGroupColumns);
  return values;
}

}  // namespace

Quantised quantise(std::span<const float> x, int limit) {
  Quantised q;
  for (size_t g = 0; g < x.size() / kGroupColumns; g++) {
    const auto group = x.subspan(g * kGroupColumns, kGroupColumns);
    float max = 0;
    bool finite = true;
    for (const float value : group) {
      finite = finite && std::isfinite(value);
      max = std::max(max, std::fabs(value));
    }
    const bool usable = finite && max > 1e-34f;
    const float inverse = usable ? static_cast<float>(limit) / max : 0.0f;
    for (const float value : group) {
      q.codes.push_back(usable ? static_cast<int32_t>(std::nearbyint(value * inverse)) : 0);
    }
    q.scale.push_back(!finite  ? std::numeric_limits<float>::quiet_NaN()
                      : usable ? max / static_cast<float>(limit)
                               : 0.0f);
  }
  return q;
}

std::vector<float> matmul(const StoredMatrix& w, std::span<const float> x, int64_t n, int limit) {
  std::vector<float> y(n * w.rows);
  const TileFormat format = tile_format(w);
  std::vector<float> row_floats(w.cols);
  std::vector<Quantised> quantised;
  for (int64_t t = 0; t < n && limit > 0; t++) {
    quantised.push_back(quantise(x.subspan(t * w.cols, w.cols), limit));
  }
  for (int64_t row = 0; row < w.rows; row++) {
    dequantize_row(w, row, row_floats.data());
    for (int64_t t = 0; t < n; t++) {
      y[t * w.rows + row] = format.dense || limit == 0
                                ? float_dot(row_floats, x.data() + t * w.cols)
                                : quantised_dot(w, format, row, quantised[t]);
    }
  }
  return y;
}

std::vector<float> prompt_matmul(const StoredMatrix& w, std::span<const float> x, int64_t n) {
  std::vector<float> y(n * w.rows);
  const TileFormat format = tile_format(w);
  std::vector<std::vector<float>> tokens;
  for (int64_t t = 0; t < n; t++) {
    const auto token = x.subspan(t * w.cols, w.cols);
    tokens.push_back(padded_bf16({token.begin(), token.end()}));
  }
  for (int64_t row = 0; row < w.rows; row++) {
    const std::vector<float> weights = padded_bf16(weights_of(w, format, row));
    for (int64_t t = 0; t < n; t++) y[t * w.rows + row] = tile_dot(weights, tokens[t]);
  }
  return y;
}

std::vector<double> attention(std::span<const float> q, std::span<const float> keys,
                              std::span<const float> values, int64_t count, double scale,
                              double softcap, const float* sink) {
  const size_t k_dim = q.size();
  const size_t v_dim = values.size() / count;
  std::vector<double> scores(count);
  double max = sink ? *sink : -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < count; j++) {
    double dot = 0;
    for (size_t d = 0; d < k_dim; d++) dot += double{q[d]} * keys[j * k_dim + d];
    scores[j] = dot * scale;
    if (softcap != 0) scores[j] = softcap * std::tanh(scores[j] / softcap);
    max = std::max(max, scores[j]);
  }
  double sum = sink ? std::exp(*sink - max) : 0;
  std::vector<double> out(v_dim);
  for (int64_t j = 0; j < count; j++) {
    const double weight = std::exp(scores[j] - max);
    sum += weight;
    for (size_t d = 0; d < v_dim; d++) out[d] += weight * values[j * v_dim + d];
  }
  for (double& value : out) value /= sum;
  return out;
}

std::vector<double> norm(std::span<const float> x, std::span<const float> w,
                         std::span<const float> bias, double eps, bool layer_norm) {
  const double count = static_cast<double>(x.size());
  double mean = 0;
  if (layer_norm) {
    for (const float value : x) mean += value / count;
  }
  double squares = 0;
  for (const float value : x) squares += (value - mean) * (value - mean);
  const double inverse = 1 / std::sqrt(squares / count + eps);
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); i++) {
    const double value = (x[i] - mean) * inverse * (w.empty() ? 1.0 : w[i]);
    y.push_back(value + (bias.empty() ? 0.0 : bias[i]));
  }
  return y;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu2: return x > 0 ? x * x : 0;
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
  }
  return 0;
}

}  // namespace tandem::cpu::ref
