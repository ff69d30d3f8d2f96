// attention.h for tokens of prompts on machines with tile registers (AMX): queries,
// keys, values and weights as bf16, sums and the softmax in f32.
//
// The order of operations of one query depends on absolute positions alone: a
// partition's scores, 32 dimensions after the other; its maximum; weights 2^((score -
// maximum) scale log2 e) and their sum, 16 lanes of keys; the weighted values, a page
// after the other; partitions merged ascending as in attention.h.
#pragma once

#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/attention.h"

namespace tandem::cpu {

inline constexpr int kPromptQueries = 96;  // of one block

// Whether a layer takes this path; the others, with quantised pages or a softcap, take
// attention.h's for all tokens.
bool prompt_attention_fits(const AttentionArgs& args);

// Floats a worker needs as scratch.
constexpr int64_t prompt_attention_floats(int64_t head_dim, int64_t v_dim) {
  return 64 + kPromptQueries * (head_dim / 2 + kPartitionKeys * 3 / 2 + 2 * state_floats(v_dim)) +
         kPartitionKeys * (head_dim + v_dim) / 2;
}

// All of a block of at most kPromptQueries queries. Null where there are no tiles.
using PromptAttentionKernel = void (*)(const AttentionArgs&, const AttentionBlock&, float* scratch);
PromptAttentionKernel prompt_attention_kernel(Isa isa);

}  // namespace tandem::cpu
