// Rotary frequencies for every scaling scheme. Source: RoFormer,
// arXiv:2104.09864; llama3 scaling as in the Llama 3.1 release.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace tandem {

// The fields of config.json's rope_scaling (or rope_parameters) that matter.
struct RopeConfig {
  std::string type = "default";  // default | linear | llama3
  int dims = 0;                  // rotated dimensions per head, even
  double theta = 10000;          // base of the frequencies
  double factor = 1;
  double low_freq_factor = 1;            // llama3
  double high_freq_factor = 4;           // llama3
  double original_max_positions = 8192;  // llama3
  // Divisors given outright, one a frequency (GGUF's rope_freqs); empty = none.
  std::vector<float> divisors;
};

// Throws Error(kUnsupported) naming an unknown type.
Rope make_rope(const RopeConfig& config);

}  // namespace tandem
