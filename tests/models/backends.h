// The backends that model tests run on.
#pragma once

#include <cstdlib>

#include "backend/backend.h"

namespace tandem {

inline std::unique_ptr<Backend> cpu(Precision precision, int threads = 2) {
  return make_cpu_backend({.precision = precision, .threads = threads});
}

// The one that TANDEM_ISA=isa gives. Throws Error where the machine lacks it.
inline std::unique_ptr<Backend> cpu_of(const char* isa, Precision precision) {
  setenv("TANDEM_ISA", isa, 1);
  try {
    auto backend = cpu(precision);
    unsetenv("TANDEM_ISA");
    return backend;
  } catch (...) {
    unsetenv("TANDEM_ISA");
    throw;
  }
}

#ifdef TANDEM_MLX
inline std::unique_ptr<Backend> mlx(Precision precision) {
  return make_mlx_backend({.precision = precision});
}
#endif

}  // namespace tandem
