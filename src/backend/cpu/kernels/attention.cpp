#include "backend/cpu/kernels/attention.h"

#include "backend/backend.h"
#include "backend/cpu/kernels/prompt_attention.h"
#if defined(TANDEM_X86)
#include "backend/cpu/kernels/amx.h"
#endif
#include "backend/turbo.h"

#define TANDEM_BODY "backend/cpu/kernels/attention_inl.h"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/pick.h"

namespace tandem::cpu {

AttentionKernels attention_kernels(Isa isa) {
  return {TANDEM_PICK(isa, attend_block), TANDEM_PICK(isa, attend_partition),
          TANDEM_PICK(isa, merge_partitions)};
}

bool prompt_attention_fits(const AttentionArgs& a) {
  const bool quantised = a.kv.main.k_format.group > 0 || a.kv.main.v_format.group > 0;
  return !quantised && a.head_dim % 32 == 0 && a.v_dim % 16 == 0 && a.softcap == 0 && a.scale > 0 &&
         a.heads / a.kv_heads <= kPromptQueries;
}

PromptAttentionKernel prompt_attention_kernel(Isa isa) {
#if defined(TANDEM_X86)
  if (isa == Isa::kAmx) return &avx512::attend_prompt_machine;
#endif
  if (isa != Isa::kAmxEmulated) return nullptr;
  isa = vector_isa(isa);
  return TANDEM_PICK(isa, attend_prompt_emulated);
}

}  // namespace tandem::cpu
