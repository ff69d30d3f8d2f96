// Drives an engine to measure its speed.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace tandem::cli {

// Tokens a second while one prompt of `prompt_tokens` is computed.
double measure_prefill(Engine& engine, int prompt_tokens, uint64_t seed);

struct DecodeSpeed {
  double tps = 0;           // tokens a second, all rows together
  double engine_share = 0;  // of the engine thread's time, what it spent outside forward passes
};

// The speed of `rows` rows together, from when each has `depth` tokens (at
// least one) behind it and its first token out, over `tokens` more each.
DecodeSpeed measure_decode(Engine& engine, int rows, int depth, int tokens, uint64_t seed);

}  // namespace tandem::cli
