// Recurrent state on the CPU: memory of its own for each slot, so that growing
// copies nothing and moves nothing.
#pragma once

#include <memory>
#include <vector>

#include "backend/kv_store.h"

namespace tandem::cpu {

class CpuStateStore final : public StateStore {
 public:
  explicit CpuStateStore(const StateSpec& spec);

  const StateSpec& spec() const override { return spec_; }
  int64_t slots() const override { return static_cast<int64_t>(slots_.size()); }
  void grow(int64_t slots) override;
  void clear_slot(int32_t slot) override;
  void copy_slot(int32_t from, int32_t to) override;
  void read_slot(int32_t slot, std::span<std::byte> out) const override;
  void write_slot(int32_t slot, std::span<const std::byte> in) override;

  float* conv(int32_t slot, int layer) const;       // [conv_floats]
  float* recurrent(int32_t slot, int layer) const;  // [recurrent_floats]

 private:
  float* at(int32_t slot) const;

  StateSpec spec_;
  int64_t layer_floats_;
  std::vector<std::unique_ptr<float[]>> slots_;  // each: of every layer conv, recurrent
};

}  // namespace tandem::cpu
