// The one account of the engine's memory, in bytes: admission, eviction and what
// is shown to people all read it. A plain value; engine thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem {

enum class MemoryUse : uint8_t {
  kWeights,
  kRows,    // pages that rows hold
  kCached,  // pages and checkpoints that only the prefix index holds: evicted when needed
  kStates,  // recurrent state of rows
  kTransients,
  kDrafts,
  kSpill,  // bytes on their way to the SSD tier
};
inline constexpr size_t kMemoryUses = 7;

const char* memory_use_name(MemoryUse use);

// What is booked, for one moment.
struct LedgerSnapshot {
  int64_t budget_bytes = 0;
  int64_t peak_bytes = 0;  // most that was ever booked at once
  std::array<int64_t, kMemoryUses> used_bytes{};

  int64_t bytes(MemoryUse use) const { return used_bytes[static_cast<size_t>(use)]; }
  int64_t total_bytes() const;
};

class Ledger {
 public:
  explicit Ledger(int64_t budget_bytes);

  // Whether `bytes` would fit if everything cached were evicted.
  bool can_reserve(int64_t bytes) const;
  // What must be evicted before `bytes` can be reserved; 0 = nothing.
  int64_t excess_bytes(int64_t bytes) const;
  // Throws Error(kMemory) with the numbers, changing nothing, if `bytes` don't fit
  // as things are.
  void reserve(MemoryUse use, int64_t bytes);
  void release(MemoryUse use, int64_t bytes);
  // Books what is counted elsewhere (pools, queues) as it is, even over the budget.
  void set(MemoryUse use, int64_t bytes);

  int64_t bytes(MemoryUse use) const { return now_.bytes(use); }
  int64_t budget_bytes() const { return now_.budget_bytes; }
  // Of the budget; negative when more is booked than it allows.
  int64_t free_bytes() const { return now_.budget_bytes - now_.total_bytes(); }
  LedgerSnapshot snapshot() const { return now_; }

 private:
  LedgerSnapshot now_;
};

}  // namespace tandem
