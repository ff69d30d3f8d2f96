#include "cache/prefix_index.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

namespace {

// Pages that a hit at a leaf may need rank above those behind the window.
constexpr uint64_t kInWindow = uint64_t{1} << 62;
// The rank of a leaf at which no hit can end.
constexpr uint64_t kUseless = 1;

}  // namespace

PrefixIndex::PrefixIndex(IndexOptions options)
    : options_(std::move(options)),
      tree_(options_.page_tokens, options_.hash_mask),
      sliding_(options_.groups.size()),
      kept_(options_.groups.size(), 0) {
  INVARIANT(options_.page_tokens > 0);
}

// Finding

bool PrefixIndex::has_full_pages(NodeId id) const {
  for (size_t g = 0; g < groups(); ++g) {
    if (!sliding(g) && place(id, g).page < 0) return false;
  }
  return block(id).ready;
}

bool PrefixIndex::has_all_pages(NodeId id) const {
  for (size_t g = 0; g < groups(); ++g) {
    if (place(id, g).page < 0) return false;
  }
  return block(id).ready;
}

// The block with the first key that the token at `length` sees.
int64_t PrefixIndex::first_block(size_t group, int64_t length) const {
  if (!sliding(group)) return 0;
  return std::max<int64_t>(0, length - options_.groups[group].window + 1) / options_.page_tokens;
}

// Whether a hit of `length`, with `depth` whole blocks, has its sliding pages.
// `runs`: how many blocks in a row up to there have theirs, per group.
bool PrefixIndex::can_end(std::span<const int32_t> runs, int32_t depth, int64_t length) const {
  for (size_t g = 0; g < groups(); ++g) {
    if (sliding(g) && runs[g] < depth - first_block(g, length)) return false;
  }
  return true;
}

PrefixHit PrefixIndex::find(const CacheNamespace& space, std::span<const int32_t> tokens,
                            int32_t limit, bool prompt_only) const {
  PrefixHit hit;
  hit.pages.resize(groups());
  const NodeId root = tree_.find_root(space);
  if (root == kNoNode) return hit;
  limit = std::min(limit, static_cast<int32_t>(std::ssize(tokens)));
  const std::vector<NodeId> path = tree_.walk(root, tokens);
  std::vector<int32_t> runs(groups(), 0);
  int32_t depth = 0;
  for (NodeId id : path) {
    const int32_t length = (depth + 1) * options_.page_tokens;
    if (length > limit || !has_full_pages(id) || (prompt_only && block(id).generated)) break;
    ++depth;
    for (size_t g = 0; g < groups(); ++g) runs[g] = place(id, g).page < 0 ? 0 : runs[g] + 1;
    if (options_.slots != nullptr && block(id).state_slot < 0) continue;
    if (!can_end(runs, depth, length)) continue;
    hit.length = length;
    hit.node = id;
    hit.state_slot = block(id).state_slot;
  }
  if (options_.slots == nullptr) {
    const int32_t whole = depth * options_.page_tokens;
    const NodeId last = depth == 0 ? root : path[depth - 1];
    int32_t alike = 0;
    const NodeId partial =
        partial_below(last, tokens.subspan(whole, limit - whole), prompt_only, &alike);
    if (partial != kNoNode && can_end(runs, depth, whole + alike)) {
      hit.length = whole + alike;
      hit.node = depth == 0 ? kNoNode : last;
      hit.partial = partial;
    }
  }
  fill_pages(hit);
  hit.pending_length = pending_length(path, hit.length, limit);
  return hit;
}

// The block below `parent` that begins most like `rest`, and how many tokens do.
NodeId PrefixIndex::partial_below(NodeId parent, std::span<const int32_t> rest, bool prompt_only,
                                  int32_t* alike) const {
  NodeId best = kNoNode;
  for (NodeId id : tree_.children(parent)) {
    const auto own = tree_.tokens(id);
    const auto length = static_cast<int32_t>(std::ranges::mismatch(own, rest).in1 - own.begin());
    if (length <= *alike || !has_all_pages(id) || (prompt_only && block(id).generated)) continue;
    *alike = length;
    best = id;
  }
  return best;
}

int32_t PrefixIndex::pending_length(std::span<const NodeId> path, int32_t length,
                                    int32_t limit) const {
  int32_t pending = length, end = 0;
  for (NodeId id : path) {
    if (block(id).pending == 0 && !has_full_pages(id)) break;
    end = std::min(limit, end + options_.page_tokens);
    if (block(id).pending > 0) pending = std::max(pending, end);
  }
  return pending;
}

void PrefixIndex::fill_pages(PrefixHit& hit) const {
  const int32_t depth = hit.node == kNoNode ? 0 : tree_.depth(hit.node);
  for (size_t g = 0; g < groups(); ++g) {
    const int64_t first = first_block(g, hit.length);
    hit.pages[g].assign(depth + (hit.partial == kNoNode ? 0 : 1), -1);
    if (hit.partial != kNoNode) hit.pages[g].back() = place(hit.partial, g).page;
    NodeId id = hit.node;
    for (int64_t i = depth - 1; i >= first; --i, id = tree_.parent(id)) {
      hit.pages[g][i] = place(id, g).page;
    }
  }
}

// Rows

NodeId PrefixIndex::settle(NodeId id) {
  if (id >= std::ssize(blocks_)) {
    blocks_.resize(id + 1);
    places_.resize((id + 1) * groups());
  }
  return id;
}

void PrefixIndex::rank(Ranking& ranking, uint64_t& now, uint64_t wanted, NodeId id) {
  if (now == wanted) return;
  if (now != 0) ranking.erase({now, id});
  if (wanted != 0) ranking.insert({wanted, id});
  now = wanted;
}

void PrefixIndex::rank_leaf(NodeId id) {
  Block& at = block(id);
  uint64_t wanted = 0;
  if (!tree_.is_root(id) && tree_.children(id).empty() && at.pins == 0 && at.pending == 0) {
    wanted = options_.slots != nullptr && at.state_slot < 0 ? kUseless : at.tick;
  }
  rank(leaves_, at.leaf_rank, wanted, id);
}

void PrefixIndex::touch(NodeId id) {
  block(id).tick = tick_;
  rank_leaf(id);
}

void PrefixIndex::pin(NodeId id) {
  ++block(id).pins;
  rank_leaf(id);
}

void PrefixIndex::unpin(NodeId id) {
  INVARIANT(block(id).pins > 0);
  --block(id).pins;
  rank_leaf(id);
  prune(id);
}

PrefixRow PrefixIndex::enter(const CacheNamespace& space, const PrefixHit& hit) {
  PrefixRow row;
  row.tail = hit.node != kNoNode ? hit.node : settle(tree_.root(space));
  pin(row.tail);
  ++tick_;
  const auto use = [&](NodeId id) {
    touch(id);
    for (size_t g = 0; g < groups(); ++g) {
      Place& at = place(id, g);
      if (at.page < 0 || !sliding(g)) continue;
      if (tree_.depth(id) > first_block(g, hit.length)) {
        rank(sliding_[g], at.rank, kInWindow | tick_, id);
      }
    }
  };
  for (NodeId id = row.tail; !tree_.is_root(id); id = tree_.parent(id)) use(id);
  if (hit.partial != kNoNode) use(hit.partial);
  if (hit.state_slot >= 0) rank(states_, block(hit.node).state_rank, tick_, hit.node);
  return row;
}

void PrefixIndex::mark(PrefixRow& row, std::span<const int32_t> tokens) {
  INVARIANT(row.tail != kNoNode && row.marked == kNoNode);
  NodeId last = row.tail;
  const int64_t size = options_.page_tokens;
  for (int64_t i = tree_.depth(row.tail); (i + 1) * size <= std::ssize(tokens); ++i) {
    const NodeId above = last;
    last = settle(tree_.child(last, tokens.subspan(i * size, size)));
    ++block(last).pending;
    rank_leaf(above);
    rank_leaf(last);
  }
  if (last == row.tail) return;
  row.marked = last;
  pin(last);
}

AddedBlock PrefixIndex::add(PrefixRow& row, std::span<const int32_t> tokens,
                            std::span<const int32_t> pages, bool generated) {
  INVARIANT(row.tail != kNoNode && pages.size() == groups());
  const NodeId above = row.tail;
  const NodeId id = settle(tree_.child(above, tokens));
  AddedBlock added;
  added.existed = block(id).ready;
  if (!added.existed) block(id).generated = generated;
  added.same_phase = block(id).generated == generated;
  ++tick_;
  if (!added.existed && options_.track_unsaved) {
    rank(unsaved_, block(id).unsaved_rank, tick_, id);
  }
  block(id).ready = true;
  touch(id);
  for (size_t g = 0; g < groups(); ++g) {
    if (place(id, g).page < 0 && pages[g] >= 0) keep_page(g, id, pages[g]);
    added.pages.push_back(place(id, g).page);
  }
  mark_behind(id);
  pin(id);
  row.tail = id;
  unpin(above);
  if (row.marked == kNoNode) return added;
  --block(id).pending;
  INVARIANT(block(id).pending >= 0);
  if (id == row.marked) {
    row.marked = kNoNode;
    unpin(id);
  }
  return added;
}

AddedBlock PrefixIndex::add_saved(PrefixRow& row, std::span<const int32_t> tokens,
                                  std::span<const int32_t> pages, bool generated) {
  AddedBlock added = add(row, tokens, pages, generated);
  if (!added.existed) mark_saved(row.tail);
  return added;
}

NodeId PrefixIndex::next_unsaved() const {
  return unsaved_.empty() ? kNoNode : unsaved_.begin()->second;
}

void PrefixIndex::mark_saved(NodeId id) { rank(unsaved_, block(id).unsaved_rank, 0, id); }

// The block that has just come to lie behind each window when `id` was added.
void PrefixIndex::mark_behind(NodeId id) {
  for (size_t g = 0; g < groups(); ++g) {
    if (!sliding(g)) continue;
    const int64_t first = first_block(g, int64_t{tree_.depth(id)} * options_.page_tokens);
    if (first == 0) continue;
    NodeId behind = id;
    while (tree_.depth(behind) > first) behind = tree_.parent(behind);
    Place& at = place(behind, g);
    if (at.page >= 0) rank(sliding_[g], at.rank, tick_, behind);
  }
}

void PrefixIndex::keep_state(const PrefixRow& row, int32_t slot) {
  INVARIANT(options_.slots != nullptr && !tree_.is_root(row.tail));
  Block& at = block(row.tail);
  if (at.state_slot >= 0) return;
  options_.slots->keep(slot);
  at.state_slot = slot;
  ++tick_;
  rank(states_, at.state_rank, tick_, row.tail);
  touch(row.tail);
}

bool PrefixIndex::has_state(const PrefixRow& row) const { return block(row.tail).state_slot >= 0; }

void PrefixIndex::leave(PrefixRow& row) {
  INVARIANT(row.tail != kNoNode);
  ++tick_;
  for (NodeId id = row.tail; !tree_.is_root(id); id = tree_.parent(id)) touch(id);
  if (row.marked != kNoNode) {
    for (NodeId id = row.marked; id != row.tail; id = tree_.parent(id)) {
      --block(id).pending;
      INVARIANT(block(id).pending >= 0);
      rank_leaf(id);
    }
    unpin(row.marked);
  }
  unpin(row.tail);
  row = {};
}

// Pages and eviction

void PrefixIndex::keep_page(size_t group, NodeId id, int32_t page) {
  pool(group).keep(page);
  place(id, group).page = page;
  ++kept_[group];
  if (sliding(group)) rank(sliding_[group], place(id, group).rank, kInWindow | tick_, id);
}

// Bytes that are free now.
int64_t PrefixIndex::drop_page(size_t group, NodeId id) {
  Place& at = place(id, group);
  if (at.page < 0) return 0;
  const bool freed = pool(group).cached(at.page);
  pool(group).drop(at.page);
  at.page = -1;
  --kept_[group];
  rank(sliding_[group], at.rank, 0, id);
  return freed ? options_.groups[group].page_bytes : 0;
}

int64_t PrefixIndex::drop_state(NodeId id) {
  Block& at = block(id);
  if (at.state_slot < 0) return 0;
  const bool freed = options_.slots->cached(at.state_slot);
  options_.slots->drop(at.state_slot);
  at.state_slot = -1;
  rank(states_, at.state_rank, 0, id);
  rank_leaf(id);
  return freed ? options_.slot_bytes : 0;
}

int64_t PrefixIndex::remove(NodeId id) {
  int64_t freed = 0;
  if (options_.on_evict && has_full_pages(id)) options_.on_evict(id);
  for (size_t g = 0; g < groups(); ++g) freed += drop_page(g, id);
  freed += drop_state(id);
  rank(leaves_, block(id).leaf_rank, 0, id);
  mark_saved(id);
  block(id) = {};
  tree_.remove(id);
  return freed;
}

// Nothing that a hit could use, and no row at it.
bool PrefixIndex::unused(NodeId id) const {
  const Block& at = block(id);
  if (!tree_.children(id).empty() || at.pins > 0 || at.pending > 0) return false;
  if (at.state_slot >= 0) return false;
  for (size_t g = 0; g < groups(); ++g) {
    if (place(id, g).page >= 0) return false;
  }
  return true;
}

void PrefixIndex::prune(NodeId id) {
  while (id != kNoNode && unused(id)) {
    const NodeId above = tree_.parent(id);
    remove(id);
    id = above;
  }
  if (id != kNoNode) rank_leaf(id);
}

bool PrefixIndex::busy(NodeId id) const {
  for (size_t g = 0; g < groups(); ++g) {
    const int32_t page = place(id, g).page;
    if (page >= 0 && !pool(g).cached(page)) return true;
  }
  return false;
}

int64_t PrefixIndex::evict_sliding(size_t group, bool behind_only, const Enough& enough) {
  int64_t freed = 0;
  for (auto it = sliding_[group].begin(); it != sliding_[group].end() && !enough();) {
    const auto [rank_now, id] = *it++;
    if (behind_only && rank_now >= kInWindow) break;
    if (!pool(group).cached(place(id, group).page)) continue;
    freed += drop_page(group, id);
    prune(id);
  }
  return freed;
}

int64_t PrefixIndex::evict_leaves(const Enough& enough) {
  int64_t freed = 0;
  for (auto it = leaves_.begin(); it != leaves_.end() && !enough();) {
    const NodeId id = it->second;
    if (busy(id)) {
      ++it;
      continue;
    }
    const NodeId above = tree_.parent(id);
    freed += remove(id);
    prune(above);
    it = leaves_.begin();  // the block above may rank anywhere
  }
  return freed;
}

bool PrefixIndex::evict_pages(size_t group, int32_t wanted) {
  const Enough enough = [&] { return pool(group).available() >= wanted; };
  evict_sliding(group, true, enough);
  evict_leaves(enough);
  evict_sliding(group, false, enough);
  return enough();
}

bool PrefixIndex::evict_slots(int32_t wanted) {
  const auto enough = [&] { return options_.slots->available() >= wanted; };
  for (auto it = states_.begin(); it != states_.end() && !enough();) {
    const NodeId id = (it++)->second;
    if (!options_.slots->cached(block(id).state_slot)) continue;
    drop_state(id);
    prune(id);
  }
  return enough();
}

int64_t PrefixIndex::evict_bytes(int64_t bytes) {
  const int64_t before = this->bytes();
  const Enough enough = [&] { return before - this->bytes() >= bytes; };
  int64_t freed = 0;
  for (size_t g = 0; g < groups(); ++g) freed += evict_sliding(g, true, enough);
  freed += evict_leaves(enough);
  for (size_t g = 0; g < groups(); ++g) freed += evict_sliding(g, false, enough);
  return freed;
}

void PrefixIndex::clear_below(NodeId id) {
  const auto children = tree_.children(id);
  for (NodeId below : std::vector<NodeId>(children.begin(), children.end())) clear_below(below);
  if (tree_.is_root(id) || !tree_.children(id).empty() || block(id).pins > 0) return;
  if (block(id).pending == 0) remove(id);
}

void PrefixIndex::clear(const CacheNamespace& space) {
  const NodeId root = tree_.find_root(space);
  if (root == kNoNode) return;
  clear_below(root);
  prune(root);
}

void PrefixIndex::clear() {
  for (NodeId id = 0; id < tree_.capacity(); ++id) {
    if (!tree_.alive(id) || !tree_.is_root(id)) continue;
    clear_below(id);
    prune(id);
  }
}

int64_t PrefixIndex::bytes() const {
  int64_t bytes = states() * options_.slot_bytes;
  for (size_t g = 0; g < groups(); ++g) bytes += kept_[g] * options_.groups[g].page_bytes;
  return bytes;
}

void PrefixIndex::check() const {
  tree_.check();
  std::vector<int64_t> kept(groups(), 0);
  int64_t states = 0, leaves = 0, unsaved = 0;
  for (NodeId id = 0; id < tree_.capacity(); ++id) {
    if (!tree_.alive(id)) continue;
    const Block& at = block(id);
    INVARIANT(at.pins >= 0 && at.pending >= 0 && !unused(id));
    INVARIANT(leaves_.contains({at.leaf_rank, id}) == (at.leaf_rank != 0));
    const bool leaf = tree_.children(id).empty() && !tree_.is_root(id);
    INVARIANT((at.leaf_rank != 0) == (leaf && at.pins == 0 && at.pending == 0));
    leaves += at.leaf_rank != 0;
    unsaved += at.unsaved_rank != 0;
    for (size_t g = 0; g < groups(); ++g) {
      const Place& own = place(id, g);
      INVARIANT((own.page >= 0 && sliding(g)) == (own.rank != 0));
      INVARIANT(own.page < 0 || pool(g).kept(own.page));
      kept[g] += own.page >= 0;
      if (own.rank != 0) INVARIANT(sliding_[g].contains({own.rank, id}));
    }
    if (at.state_slot >= 0) {
      INVARIANT(options_.slots->kept(at.state_slot) && states_.contains({at.state_rank, id}));
      ++states;
    }
  }
  INVARIANT(leaves == std::ssize(leaves_) && states == std::ssize(states_));
  INVARIANT(unsaved == std::ssize(unsaved_));
  for (size_t g = 0; g < groups(); ++g) {
    pool(g).check();
    int64_t in_pool = 0;
    for (int32_t page = 0; page < pool(g).total(); ++page) in_pool += pool(g).kept(page);
    INVARIANT(kept[g] == kept_[g] && in_pool == kept_[g]);
    if (sliding(g)) INVARIANT(std::ssize(sliding_[g]) == kept_[g]);
  }
}

}  // namespace tandem
