#include "backend/cpu/kernels/matmul.h"

#define TANDEM_BODY "backend/cpu/kernels/matmul_inl.h"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/pick.h"

namespace tandem::cpu {

MatmulKernel matmul_kernel(Isa isa) { return TANDEM_PICK(isa, matmul); }

}  // namespace tandem::cpu
