#include "engine/kv_pools.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace tandem {

namespace {

constexpr int64_t kGrowPagesMin = 32;

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

KvPools::KvPools(const ModelInfo& info, Backend& backend, const KvPoolOptions& options)
    : limits_(limits_of(info, options.max_rows, options.step_tokens)) {
  const int64_t row_bytes =
      kv_row_bytes(info, options.codec, options.context_length, options.step_tokens);
  if (row_bytes > options.bytes_max) {
    throw Error(ErrorCode::kMemory, "one context of " + std::to_string(options.context_length) +
                                        " tokens needs " + std::to_string(row_bytes) +
                                        " bytes of cache, and the limit is " +
                                        std::to_string(options.bytes_max));
  }
  const double rows =
      row_bytes == 0 ? options.max_rows
                     : std::min<double>(options.max_rows, static_cast<double>(options.bytes_max) /
                                                              static_cast<double>(row_bytes));
  for (size_t g = 0; g < info.kv_groups.size(); ++g) {
    const int64_t row_pages =
        limits_.pages_needed(row_of(options.context_length), limits_.groups[g]);
    limits_.groups[g].pages =
        static_cast<int64_t>(std::floor(static_cast<double>(row_pages) * rows));
    KvSpec spec = info.kv_groups[g];
    spec.base = options.codec;
    stores_.push_back(backend.make_kv_store(spec));
    store_pointers_.push_back(stores_.back().get());
    pools_.emplace_back(static_cast<int32_t>(
        std::min(stores_.back()->pages(KvSection::kMain), limits_.groups[g].pages)));
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
    pages.push_back(limits_.groups[g].pages - pools_[g].used());
  }
  return pages;
}

void KvPools::cover(RowPages& row, int64_t end) {
  for (size_t g = 0; g < stores_.size(); ++g) {
    const int64_t missing = row.groups[g].pages_missing(end);
    if (missing > pools_[g].available()) grow_pages(g, pools_[g].used() + missing);
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

void KvPools::grow_pages(size_t group, int64_t needed) {
  const int64_t now = pools_[group].total();
  const int64_t wanted = std::max(needed, now + std::max(kGrowPagesMin, now / 2));
  const int64_t pages = std::min(wanted, limits_.groups[group].pages);
  // The plan spends no more than pages_available().
  INVARIANT(pages >= needed);
  KvStore& store = *stores_[group];
  try {
    for (const KvSection section : sections_of(store.spec())) {
      if (pages > store.pages(section)) store.grow(section, pages);
    }
  } catch (const Error&) {
    limits_.groups[group].pages = now;
    throw;
  }
  pools_[group].grow(static_cast<int32_t>(pages));
}

void KvPools::take_slot(RowPages& row) {
  if (slots_.available() == 0) {
    const int32_t slots = std::min(limits_.max_rows, std::max(1, slots_.total() * 2));
    for (auto& states : states_) {
      if (states->slots() < slots) states->grow(slots);
    }
    slots_.grow(slots);
  }
  row.state_slot = slots_.take();
  for (auto& states : states_) states->clear_slot(row.state_slot);
}

void KvPools::release(RowPages& row) {
  for (size_t g = 0; g < stores_.size(); ++g) row.groups[g].release(pools_[g]);
  if (row.state_slot >= 0) slots_.put(row.state_slot);
  row.state_slot = -1;
}

int64_t KvPools::pages_used() const {
  int64_t pages = 0;
  for (const BlockPool& pool : pools_) pages += pool.used();
  return pages;
}

int64_t KvPools::pages_total() const {
  int64_t pages = 0;
  for (const PageGroup& group : limits_.groups) pages += group.pages;
  return pages;
}

int64_t KvPools::bytes_used() const {
  int64_t bytes = 0;
  for (size_t g = 0; g < stores_.size(); ++g)
    bytes += pools_[g].used() * pool_page_bytes(stores_[g]->spec());
  return bytes;
}

int64_t KvPools::bytes_total() const {
  int64_t bytes = 0;
  for (size_t g = 0; g < stores_.size(); ++g) {
    bytes += limits_.groups[g].pages * pool_page_bytes(stores_[g]->spec());
  }
  return bytes;
}

void KvPools::check() const {
  for (const BlockPool& pool : pools_) pool.check();
  slots_.check();
}

}  // namespace tandem
