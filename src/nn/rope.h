// Rotary frequencies for every scaling scheme. Source: RoFormer,
// arXiv:2104.09864; llama3 scaling as in the Llama 3.1 release; YaRN, arXiv:2309.00071.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace tandem {

// The fields of config.json's rope_scaling (or rope_parameters) that matter.
struct RopeConfig {
  std::string type = "default";  // default | linear | llama3 | yarn
  int dims = 0;                  // rotated dimensions per head, even
  double theta = 10000;          // base of the frequencies
  double factor = 1;
  double low_freq_factor = 1;            // llama3
  double high_freq_factor = 4;           // llama3
  double original_max_positions = 8192;  // llama3, yarn
  double beta_fast = 32;                 // yarn, as all below
  double beta_slow = 1;
  double attention_factor = 0;  // of cos and sin; 0 = from the mscales, or from factor
  double mscale = 0;
  double mscale_all_dim = 0;
  bool truncate = true;  // the ramp's ends to whole dimensions
  // Divisors given outright, one a frequency (GGUF's rope_freqs); empty = none.
  std::vector<float> divisors;
};

// YaRN's factor for attention over contexts longer by `factor`.
double yarn_mscale(double factor, double mscale);

// Throws Error(kUnsupported) naming an unknown type.
Rope make_rope(const RopeConfig& config);

}  // namespace tandem
