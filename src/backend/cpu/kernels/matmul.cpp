#include "backend/cpu/kernels/matmul.h"

#include "backend/cpu/kernels/prompt.h"
#if defined(TANDEM_X86)
#include "backend/cpu/kernels/amx.h"
#endif

#define TANDEM_BODY "backend/cpu/kernels/matmul_inl.h"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/pick.h"

namespace tandem::cpu {

MatmulKernel matmul_kernel(Isa isa) { return TANDEM_PICK(isa, matmul); }

PromptKernels prompt_kernels(Isa isa) {
#if defined(TANDEM_X86)
  if (isa == Isa::kAmx) return {&avx512::prompt_to_tiles, &avx512::prompt_matmul};
#endif
  if (isa != Isa::kAmxEmulated) return {};
  isa = vector_isa(isa);
  return {TANDEM_PICK(isa, prompt_to_tiles), TANDEM_PICK(isa, prompt_matmul_emulated)};
}

}  // namespace tandem::cpu
