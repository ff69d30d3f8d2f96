// The backends that model tests run on.
#pragma once

#include "backend/backend.h"

namespace tandem {

inline std::unique_ptr<Backend> cpu(Precision precision, int threads = 2) {
  return make_cpu_backend({.precision = precision, .threads = threads});
}

#ifdef TANDEM_MLX
inline std::unique_ptr<Backend> mlx(Precision precision) {
  return make_mlx_backend({.precision = precision});
}
#endif

}  // namespace tandem
