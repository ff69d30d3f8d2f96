// Picks a token from logits.
//
// Temperature 0 is the exact argmax, the lowest id on ties. Else the vocabulary
// is cut by top_p, min_p and top_k, all on the distribution before temperature
// (log-softmax of the processed logits), and one token is drawn from what is left
// with probability proportional to e^(logit / temperature).
//   top_p  the fewest most likely tokens whose probabilities add up to top_p
//   min_p  tokens at least min_p times as likely as the most likely one
//   top_k  the k most likely tokens
// Each keeps a prefix of the tokens ordered by (logit descending, id ascending),
// so the order in which they are applied does not matter: the shortest wins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/request.h"

namespace tandem {

// Holds scratch memory only; one for each thread that samples.
class Sampler {
 public:
  // `draw` is uniform in [0, 1). Throws Error(kInternal) when the logits are no
  // distribution: NaN, +inf, or -inf everywhere.
  int32_t choose(std::span<const float> logits, const SamplingParams& params, double draw);

 private:
  struct Candidate {
    float logit = 0;
    int32_t id = 0;
    float weight = 0;                               // e^(logit - max)
    bool operator<(const Candidate& other) const {  // more likely first
      return logit != other.logit ? logit > other.logit : id < other.id;
    }
  };

  void gather(std::span<const float> logits, float max, float low);
  Candidate cut_top_k(int64_t k);
  Candidate cut_top_p(double mass);
  int32_t draw_kept(float max, float scale, const Candidate& last, double draw) const;
  int32_t draw_all(std::span<const float> logits, float max, float scale, double draw);

  std::vector<Candidate> candidates_;  // by id
  std::vector<Candidate> ranked_;      // the same, partly ordered by likelihood
  std::vector<int32_t> ids_;
  std::vector<float> logits_, weights_;
  std::vector<double> block_sums_;
};

}  // namespace tandem
