// What all files of this room share: MLX itself, errors, and uploads.
// Not for other rooms: MLX's headers are heavy.
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "mlx/array.h"
#include "mlx/device.h"
#include "mlx/fast.h"
#include "mlx/memory.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"

namespace tandem::mlx_backend {

namespace mx = mlx::core;

// Turns what MLX throws inside `body` into an Error that names the op.
[[noreturn]] void rethrow_as_error(const char* op, const std::exception& error);

template <typename Body>
auto guarded(const char* op, Body&& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow_as_error(op, error);
  }
}

inline int dim(int64_t size) {
  INVARIANT(size >= 0 && size <= INT32_MAX);
  return static_cast<int>(size);
}

// A host vector as an array; the one copy is MLX's own.
template <typename T>
mx::array host_array(const std::vector<T>& values, mx::Shape shape) {
  return mx::array(values.data(), std::move(shape));
}

// The array in memory of its device, evaluated. Arrays made from host data lie
// in unified memory on CUDA; an op's output does not.
mx::array resident(const mx::array& host, mx::Dtype dtype);

// An op on no rows at all; MLX's kernels are not asked.
inline mx::array no_rows(int64_t cols) { return mx::zeros({0, dim(cols)}, mx::float32); }

}  // namespace tandem::mlx_backend
