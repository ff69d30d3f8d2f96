#include "cache/ledger.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"

namespace tandem {

const char* memory_use_name(MemoryUse use) {
  switch (use) {
    case MemoryUse::kWeights: return "weights";
    case MemoryUse::kRows: return "rows";
    case MemoryUse::kCached: return "cached";
    case MemoryUse::kStates: return "states";
    case MemoryUse::kTransients: return "transients";
    case MemoryUse::kDrafts: return "drafts";
    case MemoryUse::kSpill: return "spill";
  }
  return "?";
}

int64_t LedgerSnapshot::total_bytes() const {
  return std::accumulate(used_bytes.begin(), used_bytes.end(), int64_t{0});
}

Ledger::Ledger(int64_t budget_bytes) {
  INVARIANT(budget_bytes >= 0);
  now_.budget_bytes = budget_bytes;
}

bool Ledger::can_reserve(int64_t bytes) const {
  return bytes <= free_bytes() + this->bytes(MemoryUse::kCached);
}

int64_t Ledger::excess_bytes(int64_t bytes) const {
  return std::max<int64_t>(0, bytes - free_bytes());
}

void Ledger::reserve(MemoryUse use, int64_t bytes) {
  INVARIANT(bytes >= 0);
  if (bytes > free_bytes()) {
    throw Error(ErrorCode::kMemory,
                std::to_string(bytes) + " bytes are needed for " + memory_use_name(use) +
                    ", and of the budget of " + std::to_string(budget_bytes()) + " bytes " +
                    std::to_string(std::max<int64_t>(0, free_bytes())) + " are left");
  }
  set(use, this->bytes(use) + bytes);
}

void Ledger::release(MemoryUse use, int64_t bytes) {
  INVARIANT(bytes >= 0 && bytes <= this->bytes(use));
  set(use, this->bytes(use) - bytes);
}

void Ledger::set(MemoryUse use, int64_t bytes) {
  INVARIANT(bytes >= 0);
  now_.used_bytes[static_cast<size_t>(use)] = bytes;
  now_.peak_bytes = std::max(now_.peak_bytes, now_.total_bytes());
}

}  // namespace tandem
