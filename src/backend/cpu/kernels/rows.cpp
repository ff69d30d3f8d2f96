#include "backend/cpu/kernels/rows.h"

#include "backend/backend.h"
#include "backend/turbo.h"

#define TANDEM_BODY "backend/cpu/kernels/rows_inl.h"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/pick.h"

namespace tandem::cpu {

RowKernels row_kernels(Isa isa) {
  return {TANDEM_PICK(isa, quantize), TANDEM_PICK(isa, norm), TANDEM_PICK(isa, elementwise),
          TANDEM_PICK(isa, finish_qkv)};
}

}  // namespace tandem::cpu
