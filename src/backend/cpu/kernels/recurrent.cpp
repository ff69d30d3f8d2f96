#include "backend/cpu/kernels/recurrent.h"

#include "backend/backend.h"

#define TANDEM_BODY "backend/cpu/kernels/recurrent_inl.h"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/pick.h"

namespace tandem::cpu {

RecurrentKernels recurrent_kernels(Isa isa) {
  return {TANDEM_PICK(isa, conv), TANDEM_PICK(isa, delta)};
}

}  // namespace tandem::cpu
