// Handles of the op interface: small values that a backend gives out and that
// model families pass on without looking inside.
#pragma once

#include <cstdint>
#include <memory>

namespace tandem {

// An activation [rows, cols]: one row a token of the step. Valid until the
// backend's next begin_step; copying a handle copies no data. What lies behind
// `data` (floats, integer codes with scales, a lazy array) is the backend's own
// business: Backend::read is the one way to see the numbers. `owner` lets an
// eager backend reuse the memory once the last handle is gone; it may be empty.
struct Tensor {
  int64_t rows = 0;
  int64_t cols = 0;
  void* data = nullptr;
  std::shared_ptr<void> owner;

  explicit operator bool() const { return data != nullptr; }
};

// A loaded matrix [rows, cols] = [output features, input features] with its
// optional bias, in the layout of the backend that made it. Shared and
// immutable: a tied head and embedding are one buffer.
struct WeightStorage {
  virtual ~WeightStorage() = default;
};

struct Weight {
  int64_t rows = 0;
  int64_t cols = 0;
  std::shared_ptr<WeightStorage> storage;

  explicit operator bool() const { return storage != nullptr; }
};

}  // namespace tandem
