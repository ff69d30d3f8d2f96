#include "backend/mlx/runtime.h"

#include <string_view>

namespace tandem::mlx_backend {
namespace {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return true;
  const std::string_view what = error.what();
  for (const char* sign : {"Unable to allocate", "out of memory", "Insufficient Memory",
                           "cudaErrorMemoryAllocation", "maximum allowed buffer size"}) {
    if (what.find(sign) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

void rethrow_as_error(const char* op, const std::exception& error) {
  const bool memory = is_out_of_memory(error);
  throw Error(memory ? ErrorCode::kMemory : ErrorCode::kInternal,
              std::string("[") + op + "] " +
                  (memory ? "the device has not enough memory: " : "mlx: ") + error.what());
}

mx::array resident(const mx::array& host, mx::Dtype dtype) {
  mx::array out = host;
  if (host.dtype() != dtype) {
    out = mx::astype(host, dtype);
  } else if (mx::default_device() == mx::Device::gpu) {
    // `host` is held here, so that the op cannot reuse its buffer.
    const mx::Dtype bits = dtype.size() == 4 ? mx::uint32 : mx::uint16;
    out = mx::view(mx::bitwise_or(mx::view(host, bits), mx::array(0, bits)), dtype);
  }
  mx::eval(out);
  return out;
}

}  // namespace tandem::mlx_backend
