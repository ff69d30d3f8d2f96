#include "backend_mlx/naive_attention.h"

#include <cmath>

namespace tandem::test {
namespace {

using Vector = std::vector<double>;

// RMS norm of `size` elements from `begin`.
void normalise(Vector& x, size_t begin, size_t size, const float* weight, double eps) {
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += x[begin + i] * x[begin + i];
  const double factor = 1 / std::sqrt(sum / static_cast<double>(size) + eps);
  for (size_t i = 0; i < size; ++i) x[begin + i] *= factor * (weight ? weight[i] : 1.0f);
}

void normalise_heads(Vector& x, int width, const std::vector<float>& weight, double eps) {
  if (weight.empty()) return;
  if (weight.size() == x.size()) return normalise(x, 0, x.size(), weight.data(), eps);
  for (size_t at = 0; at < x.size(); at += width) normalise(x, at, width, weight.data(), eps);
}

void rotate_heads(Vector& x, int width, const Rope* rope, int32_t position) {
  if (!rope) return;
  const size_t half = rope->inv_freq.size();
  for (size_t at = 0; at < x.size(); at += width) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<float>(position) * rope->inv_freq[i];
      const double c = std::cos(angle) * rope->cos_sin_scale;
      const double s = std::sin(angle) * rope->cos_sin_scale;
      double& a = x[at + (rope->interleaved ? 2 * i : i)];
      double& b = x[at + (rope->interleaved ? 2 * i + 1 : i + half)];
      const double turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
  }
}

}  // namespace

Matrix NaiveLayer::forward(const Matrix& x, const StepOf& step, const std::vector<int>& names) {
  const Matrix y = product(x, weight);
  std::vector<Vector> queries;
  for (int64_t t = 0; t < x.rows; ++t) {
    const auto row = y.values.begin() + t * y.cols;
    const auto q_end = row + heads * head_dim, k_end = q_end + kv_heads * head_dim;
    Vector q(row, q_end);
    Entry e{Vector(q_end, k_end), Vector(k_end, row + y.cols)};
    if (k_is_v) e.v = e.k;
    normalise_heads(q, head_dim, q_norm, norm_eps);
    normalise_heads(e.k, head_dim, k_norm, norm_eps);
    if (v_norm) normalise_heads(e.v, v_dim, std::vector<float>(v_dim, 1.0f), norm_eps);
    rotate_heads(q, head_dim, rope, step.positions[t]);
    rotate_heads(e.k, head_dim, rope, step.positions[t]);
    queries.push_back(std::move(q));
    rows_[names[step.token_row[t]]][step.positions[t]] = std::move(e);
  }
  Matrix out(x.rows, heads * v_dim);
  for (int32_t t = 0; t < x.rows; ++t) {
    const Vector o = attend(queries[t], t, step, rows_[names[step.token_row[t]]]);
    std::copy(o.begin(), o.end(), out.values.begin() + t * out.cols);
  }
  return out;
}

Vector NaiveLayer::attend(const Vector& q, int32_t token, const StepOf& step,
                          const std::map<int32_t, Entry>& history) const {
  const int32_t own = step.positions[token];
  const auto sees = [&](int32_t position) {
    if (position <= own && (window == 0 || own - position < window)) return true;
    for (const BothWays& span : step.both_ways) {
      if (token < span.begin || token >= span.end) continue;
      for (int32_t t = span.begin; t < span.end; ++t) {
        if (step.positions[t] == position) return true;
      }
    }
    return false;
  };
  Vector out(heads * v_dim);
  for (int h = 0; h < heads; ++h) {
    const int kv = h / (heads / kv_heads);
    Vector sum(v_dim);
    double total = sinks.empty() ? 0 : std::exp(double{sinks[h]});
    for (const auto& [position, entry] : history) {
      if (!sees(position)) continue;
      double score = 0;
      for (int i = 0; i < head_dim; ++i) score += q[h * head_dim + i] * entry.k[kv * head_dim + i];
      score *= scale;
      if (softcap > 0) score = softcap * std::tanh(score / softcap);
      const double weight = std::exp(score);
      total += weight;
      for (int i = 0; i < v_dim; ++i) sum[i] += weight * entry.v[kv * v_dim + i];
    }
    for (int i = 0; i < v_dim; ++i) out[h * v_dim + i] = sum[i] / total;
  }
  return out;
}

}  // namespace tandem::test
