#include "backend/cpu/state_store.h"

#include <cstring>
#include <new>
#include <string>

#include "base/error.h"

namespace tandem::cpu {

CpuStateStore::CpuStateStore(const StateSpec& spec)
    : spec_(spec), layer_floats_(spec.conv_floats + spec.recurrent_floats) {
  INVARIANT(spec.layers > 0 && spec.conv_floats >= 0 && spec.recurrent_floats >= 0);
}

void CpuStateStore::grow(int64_t slots) {
  slots_.reserve(static_cast<size_t>(slots));
  while (this->slots() < slots) {
    // Not cleared: pages that no row has used yet cost nothing.
    float* slot = new (std::nothrow) float[static_cast<size_t>(layer_floats_ * spec_.layers)];
    if (!slot) {
      throw Error(ErrorCode::kPoolExhausted, "[state] no memory for " + std::to_string(slots) +
                                                 " slots of " + std::to_string(slot_bytes()) +
                                                 " bytes");
    }
    slots_.emplace_back(slot);
  }
}

float* CpuStateStore::at(int32_t slot) const {
  INVARIANT(slot >= 0 && slot < slots());
  return slots_[static_cast<size_t>(slot)].get();
}

void CpuStateStore::clear_slot(int32_t slot) { std::memset(at(slot), 0, slot_bytes()); }

void CpuStateStore::copy_slot(int32_t from, int32_t to) {
  if (from != to) std::memcpy(at(to), at(from), slot_bytes());
}

void CpuStateStore::read_slot(int32_t slot, std::span<std::byte> out) const {
  INVARIANT(static_cast<int64_t>(out.size()) == slot_bytes());
  std::memcpy(out.data(), at(slot), out.size());
}

void CpuStateStore::write_slot(int32_t slot, std::span<const std::byte> in) {
  INVARIANT(static_cast<int64_t>(in.size()) == slot_bytes());
  std::memcpy(at(slot), in.data(), in.size());
}

float* CpuStateStore::conv(int32_t slot, int layer) const {
  INVARIANT(layer >= 0 && layer < spec_.layers);
  return at(slot) + layer * layer_floats_;
}

float* CpuStateStore::recurrent(int32_t slot, int layer) const {
  return conv(slot, layer) + spec_.conv_floats;
}

}  // namespace tandem::cpu
