// The plainest form of every rule of sampling, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "sched/request.h"

namespace tandem::testing {

inline std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (float x : logits) p.push_back(std::exp((x - max) / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// Probability of each token after the cuts of `params`.
inline std::vector<double> distribution(const std::vector<float>& logits,
                                        const SamplingParams& params) {
  const std::vector<double> p = softmax(logits, 1);
  std::vector<int> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  std::vector<double> result = softmax(logits, params.temperature);
  double before = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const int id = order[rank];
    const bool kept = (params.top_k == 0 || rank < static_cast<size_t>(params.top_k)) &&
                      (params.top_p >= 1 || before < params.top_p) &&
                      p[id] >= params.min_p * p[order[0]];
    before += p[id];
    if (!kept) result[id] = 0;
  }
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& x : result) x /= sum;
  return result;
}

inline std::vector<float> random_logits(int size, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(size);
  for (float& x : logits) x = normal(random);
  return logits;
}

}  // namespace tandem::testing
