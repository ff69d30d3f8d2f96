// The page stores of a model with the integers that say who owns which page, and
// the state slots of recurrent layers. Stores grow as rows need them, up to a
// limit in bytes. Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cache/block_pool.h"
#include "cache/page_list.h"
#include "models/model.h"
#include "sched/scheduler.h"

namespace tandem {

// What one row holds.
struct RowPages {
  std::vector<PageList> groups;
  int32_t state_slot = -1;
};

// The longest row, in tokens, a multiple of the page up to `tokens`, whose cache takes no
// more than `bytes`; 0 = none.
int64_t kv_longest_row(const ModelInfo& info, KvCodec codec, int64_t tokens, int32_t step_tokens,
                       int64_t bytes);

// Bytes that a row of `tokens` tokens holds over all groups, chunks of at most
// step_tokens in flight, its recurrent state included.
int64_t kv_row_bytes(const ModelInfo& info, KvCodec codec, int64_t tokens, int32_t step_tokens);

struct KvPoolOptions {
  KvCodec codec = KvCodec::kF16;
  int64_t bytes_max = 0;
  int32_t max_rows = 0;
  int32_t context_length = 0;
  int32_t step_tokens = 0;
  int32_t checkpoints_max = 0;  // state slots besides those of rows
};

class KvPools {
 public:
  // The pools then hold as many whole contexts as bytes_max does, or else one row that
  // is as long as can be. Throws Error(kMemory) if bytes_max holds none.
  KvPools(const ModelInfo& info, Backend& backend, const KvPoolOptions& options);
  KvPools(const KvPools&) = delete;  // the prefix index points at the pools
  KvPools& operator=(const KvPools&) = delete;

  // What the scheduler may hand out.
  const SchedulerLimits& limits() const { return limits_; }

  RowPages make_row() const;
  // Who gives back cached pages (or, for kSlots, state slots) until `wanted` are free;
  // false if that can't be.
  static constexpr size_t kSlots = ~size_t{0};
  using Reclaim = std::function<bool(size_t group, int32_t wanted)>;
  void set_reclaim(Reclaim reclaim) { reclaim_ = std::move(reclaim); }

  // Pages that cover() could hand out now, per group: free, cached, or still to grow.
  std::vector<int64_t> pages_available() const;
  // Gives the row room for its positions [0, end). Throws Error(kPoolExhausted) when
  // memory cannot be had; the pools then stay as large as they are.
  void cover(RowPages& row, int64_t end);
  // Fills an empty row with the pages of positions [0, tokens) (per group, -1 = behind
  // the window), sharing them. The last is copied if it is filled in part, and the
  // state of `state_slot` if that is not -1. Throws as cover(), changing nothing.
  void adopt(RowPages& row, std::span<const std::vector<int32_t>> pages, int64_t tokens,
             int32_t state_slot);
  // A copy of the row's recurrent state, or -1 if there is no place for one. The
  // caller's to put back.
  int32_t copy_state(const RowPages& row);
  // Takes back what no position from `next` on can see.
  void drop_behind(RowPages& row, int64_t next);
  void release(RowPages& row);

  std::span<KvStore* const> stores() const { return store_pointers_; }
  std::span<StateStore* const> states() const { return state_pointers_; }
  size_t groups() const { return stores_.size(); }
  bool has_states() const { return !states_.empty(); }

  BlockPool& pool(size_t group) { return pools_[group]; }
  BlockPool& slots() { return slots_; }
  int64_t page_bytes(size_t group) const;
  int64_t slot_bytes() const;
  // What a row of so many tokens holds when it is whole.
  int64_t row_bytes(int64_t tokens) const;

  int64_t pages_used() const;  // by rows
  int64_t pages_cached() const;
  int64_t pages_total() const;
  int64_t bytes_used() const;  // by rows
  int64_t bytes_cached() const;
  int64_t bytes_total() const;
  int64_t state_bytes_used() const;  // by rows

  // Aborts unless every pool's books are in order.
  void check() const;

 private:
  void make_room(size_t group, int64_t pages);
  void grow_pages(size_t group, int64_t needed);
  bool make_room_for_slot();
  void take_slot(RowPages& row);

  SchedulerLimits limits_;
  std::vector<std::unique_ptr<KvStore>> stores_;
  std::vector<BlockPool> pools_;
  std::vector<KvStore*> store_pointers_;
  std::vector<std::unique_ptr<StateStore>> states_;
  std::vector<StateStore*> state_pointers_;
  BlockPool slots_;
  int32_t slots_max_ = 0;
  Reclaim reclaim_;
};

}  // namespace tandem
