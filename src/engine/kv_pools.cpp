#include "engine/kv_pools.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace tandem {

namespace {

constexpr int64_t kGrowPagesMin = 32;
constexpr int32_t kCheckpointTokens = 1024;

// The limits of an engine before its pools have a size.
SchedulerLimits limits_of(const ModelInfo& info, int32_t max_rows, int32_t step_tokens) {
  SchedulerLimits limits{
      .max_rows = max_rows, .page_tokens = kPageTokens, .step_tokens = step_tokens, .groups = {}};
  for (const KvSpec& spec : info.kv_groups) limits.groups.push_back({.window = spec.window});
  return limits;
}

RowSpec row_of(int64_t tokens) { return {.prompt_length = static_cast<int32_t>(tokens)}; }

// A page of a pool is the page of that id in every section its store has: a row
// uses the one that the position says, and a free page may serve either next.
std::span<const KvSection> sections_of(const KvSpec& spec) {
  return std::span(kKvSections).first(spec.has_base_section() ? 2 : 1);
}

int64_t pool_page_bytes(const KvSpec& spec) {
  int64_t bytes = 0;
  for (const KvSection section : sections_of(spec)) bytes += kv_page_bytes(spec, section);
  return bytes;
}

}  // namespace

int64_t kv_row_bytes(const ModelInfo& info, KvCodec codec, int64_t tokens, int32_t step_tokens) {
  const SchedulerLimits limits = limits_of(info, 1, step_tokens);
  int64_t bytes = 0;
  for (size_t g = 0; g < info.kv_groups.size(); ++g) {
    KvSpec spec = info.kv_groups[g];
    spec.base = codec;
    bytes += limits.pages_needed(row_of(tokens), limits.groups[g]) * pool_page_bytes(spec);
  }
  for (const StateSpec& spec : info.state_groups) {
    bytes += spec.layers * (spec.conv_floats + spec.recurrent_floats) * int64_t{sizeof(float)};
  }
  return bytes;
}

int64_t kv_longest_row(const ModelInfo& info, KvCodec codec, int64_t tokens, int32_t step_tokens,
                       int64_t bytes) {
  int64_t low = 0, high = tokens / kPageTokens;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (kv_row_bytes(info, codec, middle * kPageTokens, step_tokens) <= bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kPageTokens;
}

KvPools::KvPools(const ModelInfo& info, Backend& backend, const KvPoolOptions& options)
    : limits_(limits_of(info, options.max_rows, options.step_tokens)) {
  int64_t longest = options.context_length;
  int64_t row_bytes = kv_row_bytes(info, options.codec, longest, options.step_tokens);
  if (row_bytes > options.bytes_max) {
    longest = kv_longest_row(info, options.codec, longest, options.step_tokens, options.bytes_max);
  }
  if (longest == 0) {
    throw Error(ErrorCode::kMemory, "one context of " + std::to_string(options.context_length) +
                                        " tokens needs " + std::to_string(row_bytes) +
                                        " bytes of cache, and the limit is " +
                                        std::to_string(options.bytes_max));
  }
  row_bytes = kv_row_bytes(info, options.codec, longest, options.step_tokens);
  const double rows =
      row_bytes == 0 ? options.max_rows
                     : std::min<double>(options.max_rows, static_cast<double>(options.bytes_max) /
                                                              static_cast<double>(row_bytes));
  for (size_t g = 0; g < info.kv_groups.size(); ++g) {
    const int64_t row_pages = limits_.pages_needed(row_of(longest), limits_.groups[g]);
    limits_.groups[g].pages =
        static_cast<int64_t>(std::floor(static_cast<double>(row_pages) * rows));
    KvSpec spec = info.kv_groups[g];
    spec.base = options.codec;
    stores_.push_back(backend.make_kv_store(spec));
    store_pointers_.push_back(stores_.back().get());
    pools_.emplace_back(static_cast<int32_t>(
        std::min(stores_.back()->pages(KvSection::kMain), limits_.groups[g].pages)));
  }
  slots_max_ = options.max_rows + options.checkpoints_max;
  if (options.checkpoints_max > 0 && !info.state_groups.empty()) {
    limits_.checkpoint_tokens = kCheckpointTokens;
  }
  for (const StateSpec& spec : info.state_groups) {
    states_.push_back(backend.make_state_store(spec));
    state_pointers_.push_back(states_.back().get());
  }
}

RowPages KvPools::make_row() const {
  return {.groups = std::vector<PageList>(stores_.size(), PageList(kPageTokens))};
}

std::vector<int64_t> KvPools::pages_available() const {
  std::vector<int64_t> pages;
  for (size_t g = 0; g < stores_.size(); ++g) {
    pages.push_back(limits_.groups[g].pages - pools_[g].used() + pools_[g].cached());
  }
  return pages;
}

void KvPools::cover(RowPages& row, int64_t end) {
  for (size_t g = 0; g < stores_.size(); ++g) {
    make_room(g, row.groups[g].pages_missing(end));
    row.groups[g].cover(end, pools_[g]);
  }
  if (has_states() && row.state_slot < 0) take_slot(row);
}

void KvPools::drop_behind(RowPages& row, int64_t next) {
  for (size_t g = 0; g < stores_.size(); ++g) {
    const int32_t window = limits_.groups[g].window;
    if (window > 0) row.groups[g].drop_before(std::max<int64_t>(0, next - window + 1), pools_[g]);
  }
}

void KvPools::adopt(RowPages& row, std::span<const std::vector<int32_t>> pages, int64_t tokens,
                    int32_t state_slot) {
  try {
    for (size_t g = 0; g < stores_.size(); ++g) row.groups[g].adopt(pages[g], pools_[g]);
    for (size_t g = 0; g < stores_.size() && tokens % kPageTokens != 0; ++g) {
      make_room(g, 1);
      for (const PageCopy& copy : row.groups[g].make_writable(tokens, tokens + 1, pools_[g])) {
        stores_[g]->copy_page(stores_[g]->section(tokens), copy.from, copy.to);
      }
    }
    if (state_slot < 0) return;
    take_slot(row);
    for (auto& states : states_) states->copy_slot(state_slot, row.state_slot);
  } catch (...) {
    release(row);
    throw;
  }
}

// Pages never used come first, then those that only the cache holds.
void KvPools::make_room(size_t group, int64_t pages) {
  BlockPool& pool = pools_[group];
  if (pages > pool.available()) grow_pages(group, pool.used() + pages);
  if (pages <= pool.available()) return;
  if (reclaim_ && reclaim_(group, static_cast<int32_t>(pages))) return;
  throw Error(ErrorCode::kPoolExhausted,
              "all " + std::to_string(pool.total()) + " cache pages are in use");
}

void KvPools::grow_pages(size_t group, int64_t needed) {
  const int64_t now = pools_[group].total();
  const int64_t wanted = std::max(needed, now + std::max(kGrowPagesMin, now / 2));
  const int64_t pages = std::min(wanted, limits_.groups[group].pages);
  if (pages <= now) return;
  KvStore& store = *stores_[group];
  try {
    for (const KvSection section : sections_of(store.spec())) {
      if (pages > store.pages(section)) store.grow(section, pages);
    }
  } catch (const Error&) {
    limits_.groups[group].pages = now;
    return;
  }
  pools_[group].grow(static_cast<int32_t>(pages));
}

bool KvPools::make_room_for_slot() {
  if (slots_.available() == 0 && slots_.total() < slots_max_) {
    const int32_t slots = std::min(slots_max_, std::max(1, slots_.total() * 2));
    for (auto& states : states_) {
      if (states->slots() < slots) states->grow(slots);
    }
    slots_.grow(slots);
  }
  return slots_.available() > 0 || (reclaim_ && reclaim_(kSlots, 1));
}

int32_t KvPools::copy_state(const RowPages& row) {
  if (!make_room_for_slot()) return -1;
  const int32_t slot = slots_.take();
  for (auto& states : states_) states->copy_slot(row.state_slot, slot);
  return slot;
}

void KvPools::take_slot(RowPages& row) {
  make_room_for_slot();
  row.state_slot = slots_.take();
  for (auto& states : states_) states->clear_slot(row.state_slot);
}

void KvPools::release(RowPages& row) {
  for (size_t g = 0; g < stores_.size(); ++g) row.groups[g].release(pools_[g]);
  if (row.state_slot >= 0) slots_.put(row.state_slot);
  row.state_slot = -1;
}

int64_t KvPools::slot_bytes() const {
  int64_t bytes = 0;
  for (const auto& states : states_) {
    const StateSpec& spec = states->spec();
    bytes += spec.layers * (spec.conv_floats + spec.recurrent_floats) * int64_t{sizeof(float)};
  }
  return bytes;
}

int64_t KvPools::row_bytes(int64_t tokens) const {
  int64_t bytes = slot_bytes();
  for (size_t g = 0; g < stores_.size(); ++g) {
    bytes += limits_.pages_needed(row_of(tokens), limits_.groups[g]) * page_bytes(g);
  }
  return bytes;
}

int64_t KvPools::pages_used() const {
  int64_t pages = 0;
  for (const BlockPool& pool : pools_) pages += pool.used() - pool.cached();
  return pages;
}

int64_t KvPools::pages_cached() const {
  int64_t pages = 0;
  for (const BlockPool& pool : pools_) pages += pool.cached();
  return pages;
}

int64_t KvPools::page_bytes(size_t group) const { return pool_page_bytes(stores_[group]->spec()); }

int64_t KvPools::pages_total() const {
  int64_t pages = 0;
  for (const PageGroup& group : limits_.groups) pages += group.pages;
  return pages;
}

int64_t KvPools::bytes_used() const {
  int64_t bytes = 0;
  for (size_t g = 0; g < stores_.size(); ++g) {
    bytes += (pools_[g].used() - pools_[g].cached()) * page_bytes(g);
  }
  return bytes;
}

int64_t KvPools::bytes_cached() const {
  int64_t bytes = slots_.cached() * slot_bytes();
  for (size_t g = 0; g < stores_.size(); ++g) bytes += pools_[g].cached() * page_bytes(g);
  return bytes;
}

int64_t KvPools::state_bytes_used() const {
  return (slots_.used() - slots_.cached()) * slot_bytes();
}

int64_t KvPools::bytes_total() const {
  int64_t bytes = 0;
  for (size_t g = 0; g < stores_.size(); ++g) {
    bytes += limits_.groups[g].pages * page_bytes(g);
  }
  return bytes;
}

void KvPools::check() const {
  for (const BlockPool& pool : pools_) pool.check();
  slots_.check();
}

}  // namespace tandem
