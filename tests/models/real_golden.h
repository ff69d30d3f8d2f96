// A real model's reference answers, and how far a model of ours is from them.
#pragma once

#include <string>
#include <vector>

#include "models/model_runner.h"

namespace tandem {

struct RealItem {
  std::string name;
  std::vector<int32_t> prompt, output;
  std::vector<double> gaps;         // how far each output token led, in log-probability
  std::vector<int32_t> top_ids;     // [outputs * top], best first
  std::vector<float> top_logprobs;  // [outputs * (top + 1)], the last: all others together
  size_t top = 0;
};

// Items of goldens/<folder>: golden.json and the files that it names.
std::vector<RealItem> read_real_items(const std::string& folder);

struct Fidelity {
  double kl_sum = 0, worst_logprob = 0;
  int positions = 0, agreeing = 0;
  int greedy_misses = 0;  // wrong tokens before the first gap below the bound

  double kl_mean() const { return kl_sum / positions; }
  double agreement() const { return static_cast<double>(agreeing) / positions; }
};

// Teacher-forced: the reference's own ids go in, whatever the model prefers.
Fidelity measure_fidelity(const TestModel& test, const std::vector<RealItem>& items,
                          double gap_min);

}  // namespace tandem
