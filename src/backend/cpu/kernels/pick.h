// Picks a kernel compiled by foreach_target.h.
#pragma once

#include "backend/cpu/isa.h"

#if defined(TANDEM_X86)
#define TANDEM_PICK(isa, kernel) \
  ((isa) == Isa::kAvx512 ? &avx512::kernel : (isa) == Isa::kAvx2 ? &avx2::kernel : &scalar::kernel)
#else
#define TANDEM_PICK(isa, kernel) ((void)(isa), &scalar::kernel)
#endif
