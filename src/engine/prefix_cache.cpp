#include "engine/prefix_cache.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

namespace {

// While a row generates, its recurrent state is kept at multiples of this.
constexpr int32_t kGeneratedCheckpointTokens = 128;
constexpr int64_t kCheckpointsMax = 256;
// Of the cache's bytes; the rest is for pages.
constexpr int64_t kCheckpointShare = 2;

int64_t state_bytes(const ModelInfo& info) {
  int64_t bytes = 0;
  for (const StateSpec& spec : info.state_groups) {
    bytes += spec.layers * (spec.conv_floats + spec.recurrent_floats) * int64_t{sizeof(float)};
  }
  return bytes;
}

}  // namespace

int32_t PrefixCache::checkpoints_max(const ModelInfo& info, int64_t bytes_max) {
  if (info.state_groups.empty() || bytes_max == 0) return 0;
  const int64_t slots = bytes_max / kCheckpointShare / std::max<int64_t>(1, state_bytes(info));
  return static_cast<int32_t>(std::min(slots, kCheckpointsMax));
}

IndexOptions PrefixCache::index_options(KvPools& pools) {
  IndexOptions options;
  options.page_tokens = kPageTokens;
  for (size_t g = 0; g < pools.groups(); ++g) {
    options.groups.push_back({.pool = &pools.pool(g),
                              .window = pools.limits().groups[g].window,
                              .page_bytes = pools.page_bytes(g)});
  }
  if (pools.has_states()) {
    options.slots = &pools.slots();
    options.slot_bytes = pools.slot_bytes();
  }
  return options;
}

PrefixCache::PrefixCache(KvPools& pools, PrefixCacheOptions options)
    : pools_(pools),
      options_(std::move(options)),
      space_(cache_namespace(options_.parts)),
      index_(index_options(pools)) {
  pools_.set_reclaim([this](size_t group, int32_t wanted) {
    return group == KvPools::kSlots ? index_.evict_slots(wanted)
                                    : index_.evict_pages(group, wanted);
  });
}

PrefixCache::Found PrefixCache::nothing() const {
  Found found;
  found.hit.pages.resize(pools_.groups());
  return found;
}

PrefixCache::Found PrefixCache::find(const Row& row, int32_t limit) const {
  Found found = nothing();
  // All prompt tokens of such a row must be computed, for their logits.
  if (!enabled() || row.wants_prompt_logprobs()) return found;
  limit = std::min(limit, static_cast<int32_t>(row.tokens.size()) - 1);
  found.hit = index_.find(space_, row.tokens, limit);
  // Others may not keep the recurrent state where this row would need it.
  found.wait = !pools_.has_states() && found.hit.pending_length > found.hit.length;
  found.part.tokens = found.hit.length;
  for (size_t g = 0; g < pools_.groups(); ++g) {
    int64_t taken = found.hit.partial == kNoNode ? 0 : 1;
    for (int32_t page : found.hit.pages[g]) taken += page >= 0 && pools_.pool(g).cached(page);
    found.part.pages.push_back(taken);
  }
  return found;
}

bool PrefixCache::start(Row& row, const PrefixHit& hit) {
  if (!enabled()) return true;
  ++stats_.queries;
  stats_.query_tokens += std::ssize(row.tokens);
  PrefixHit own = hit;
  bool whole = true;
  row.prefix = index_.enter(space_, own);
  if (hit.length > 0) {
    try {
      pools_.adopt(row.pages, hit.pages, hit.length, hit.state_slot);
    } catch (const Error&) {
      index_.leave(row.prefix);
      row.prefix = index_.enter(space_, {});
      whole = false;
    }
  }
  if (whole && hit.length > 0) {
    ++stats_.hits;
    stats_.hit_tokens += hit.length;
  }
  // Rows that deliver while their prompt is computed may be held up by their readers.
  if (!row.wants_prompt_logprobs()) index_.mark(row.prefix, row.request.prompt);
  return whole;
}

bool PrefixCache::computed(Row& row, int32_t end) {
  if (!enabled()) return false;
  const bool marked = row.prefix.marked != kNoNode;
  bool added = false;
  while ((index_.tree().depth(row.prefix.tail) + 1) * kPageTokens <= end) {
    add_block(row);
    added = true;
  }
  if (pools_.has_states() && end % kPageTokens == 0) keep_checkpoint(row, end);
  if (added) trim();
  return marked && added;
}

void PrefixCache::add_block(Row& row) {
  const int32_t index = index_.tree().depth(row.prefix.tail);
  const std::span<const int32_t> tokens(row.tokens.data() + index * kPageTokens, kPageTokens);
  std::vector<int32_t> pages;
  for (const PageList& list : row.pages.groups) pages.push_back(list.pages()[index]);
  const bool generated = (index + 1) * kPageTokens > row.prompt_length();
  const AddedBlock added = index_.add(row.prefix, tokens, pages, generated);
  if (!added.existed || !added.same_phase) return;
  for (size_t g = 0; g < pages.size(); ++g) {
    if (pages[g] >= 0 && added.pages[g] >= 0) {
      row.pages.groups[g].replace(index, added.pages[g], pools_.pool(g));
    }
  }
}

void PrefixCache::keep_checkpoint(Row& row, int32_t end) {
  const int32_t prompt = row.prompt_length();
  const int32_t every =
      end > prompt ? kGeneratedCheckpointTokens : pools_.limits().checkpoint_tokens;
  if (every == 0 || index_.has_state(row.prefix)) return;
  if (end % every != 0 && end != (prompt - 1) / kPageTokens * kPageTokens) return;
  const int32_t slot = pools_.copy_state(row.pages);
  if (slot < 0) return;
  index_.keep_state(row.prefix, slot);
  pools_.slots().put(slot);
}

bool PrefixCache::release(Row& row) {
  const bool marked = row.prefix.marked != kNoNode;
  if (row.prefix.tail != kNoNode) index_.leave(row.prefix);
  pools_.release(row.pages);
  trim();
  return marked;
}

void PrefixCache::trim() {
  const int64_t over = pools_.bytes_cached() - options_.bytes_max;
  if (over > 0) index_.evict_bytes(over);
}

PrefixCacheStats PrefixCache::stats() const {
  PrefixCacheStats stats = stats_;
  stats.blocks = index_.blocks();
  return stats;
}

}  // namespace tandem
