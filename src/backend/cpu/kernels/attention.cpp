#include "backend/cpu/kernels/attention.h"

#include "backend/backend.h"
#include "backend/turbo.h"

#define TANDEM_BODY "backend/cpu/kernels/attention_inl.h"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/pick.h"

namespace tandem::cpu {

AttentionKernels attention_kernels(Isa isa) {
  return {TANDEM_PICK(isa, attend_block), TANDEM_PICK(isa, attend_partition),
          TANDEM_PICK(isa, merge_partitions)};
}

}  // namespace tandem::cpu
