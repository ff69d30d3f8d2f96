// The page stores of a model with the integers that say who owns which page, and
// the state slots of recurrent layers. Stores grow as rows need them, up to a
// limit in bytes. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
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

// Bytes that a row of `tokens` tokens holds over all groups, chunks of at most
// step_tokens in flight, its recurrent state included.
int64_t kv_row_bytes(const ModelInfo& info, KvCodec codec, int64_t tokens, int32_t step_tokens);

struct KvPoolOptions {
  KvCodec codec = KvCodec::kF16;
  int64_t bytes_max = 0;
  int32_t max_rows = 0;
  int32_t context_length = 0;
  int32_t step_tokens = 0;
};

class KvPools {
 public:
  // Throws Error(kMemory) if bytes_max does not hold one whole context.
  KvPools(const ModelInfo& info, Backend& backend, const KvPoolOptions& options);

  // What the scheduler may hand out.
  const SchedulerLimits& limits() const { return limits_; }

  RowPages make_row() const;
  // Pages that cover() could hand out now, per group.
  std::vector<int64_t> pages_available() const;
  // Gives the row room for its positions [0, end). Throws Error(kPoolExhausted) when
  // memory cannot be had; the pools then stay as large as they are.
  void cover(RowPages& row, int64_t end);
  // Takes back what no position from `next` on can see.
  void drop_behind(RowPages& row, int64_t next);
  void release(RowPages& row);

  std::span<KvStore* const> stores() const { return store_pointers_; }
  std::span<StateStore* const> states() const { return state_pointers_; }
  size_t groups() const { return stores_.size(); }
  bool has_states() const { return !states_.empty(); }

  int64_t pages_used() const;
  int64_t pages_total() const;
  int64_t bytes_used() const;
  int64_t bytes_total() const;

  // Aborts unless every pool's books are in order.
  void check() const;

 private:
  void grow_pages(size_t group, int64_t needed);
  void take_slot(RowPages& row);

  SchedulerLimits limits_;
  std::vector<std::unique_ptr<KvStore>> stores_;
  std::vector<BlockPool> pools_;
  std::vector<KvStore*> store_pointers_;
  std::vector<std::unique_ptr<StateStore>> states_;
  std::vector<StateStore*> state_pointers_;
  BlockPool slots_;
};

}  // namespace tandem
