// Which blocks of tokens are in the cache, and in which pages: a tree whose nodes
// are whole blocks, found by a hash chain over namespace and tokens and checked
// against the tokens themselves, so that a collision can't alias.
//
//   find() -> enter() -> [mark()] -> add() for each block computed -> leave()
//
// Live rows, finished rows and rows that only come in share the same nodes. The
// index holds one reference to each page it names (BlockPool::keep), rows hold
// their own. Evicted are: pages of sliding groups behind the windows first, then
// leaves, least recently used first; never what a row is at or what others hold.
//
// Integers only: no clock, lock or array; the engine moves the bytes. Engine
// thread. The pools must outlive the index.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cache/block_pool.h"
#include "cache/cache_namespace.h"
#include "cache/prefix_tree.h"

namespace tandem {

// One group of layers with the same cache spec.
struct IndexGroup {
  BlockPool* pool = nullptr;
  int32_t window = 0;  // keys a token sees, itself included; 0 = all
  int64_t page_bytes = 0;
};

struct IndexOptions {
  int32_t page_tokens = 32;
  std::vector<IndexGroup> groups;
  // Slots of recurrent state; null where the model has none.
  BlockPool* slots = nullptr;
  int64_t slot_bytes = 0;
  // Keep a list of blocks that are not saved elsewhere: next_unsaved().
  bool track_unsaved = false;
  // Called before a block with its pages goes, to save what it holds.
  std::function<void(NodeId)> on_evict;
  uint64_t hash_mask = ~uint64_t{0};  // fewer bits make collisions, for tests
};

// The longest prefix that every group can serve.
struct PrefixHit {
  int32_t length = 0;        // tokens
  NodeId node = kNoNode;     // last whole block; kNoNode = none
  NodeId partial = kNoNode;  // another block that only begins alike; its page is the last one
  int32_t state_slot = -1;   // checkpoint at `length`, to be copied into the row's own slot
  // Per group the page of each block, -1 = behind the window. A partial last page
  // must be copied before the row writes (PageList::make_writable does).
  std::vector<std::vector<int32_t>> pages;
  // What `length` may become when rows now computing these blocks get there.
  int32_t pending_length = 0;
};

// A row's place in the index.
struct PrefixRow {
  NodeId tail = kNoNode;    // last block it has from the index or added
  NodeId marked = kNoNode;  // last block it is computing
};

struct AddedBlock {
  bool existed = false;  // with pages, from another row
  // The index's pages; where they differ from the row's, the row may take them
  // instead of its own (PageList::replace), if it `existed` in the same phase.
  std::vector<int32_t> pages;
  bool same_phase = true;
};

class PrefixIndex {
 public:
  explicit PrefixIndex(IndexOptions options);

  // The longest usable prefix of `tokens`, at most `limit` tokens. With
  // `prompt_only`, blocks that hold generated tokens don't count. Changes nothing.
  PrefixHit find(const CacheNamespace& space, std::span<const int32_t> tokens, int32_t limit,
                 bool prompt_only = false) const;

  // A row starts from a hit just found: it has been used, and stays while the row
  // is inside. The row must adopt the hit's pages before anything is evicted.
  PrefixRow enter(const CacheNamespace& space, const PrefixHit& hit);
  // The row will compute the whole blocks among `tokens` (its whole prompt), so
  // that others with the same beginning may wait for them. Once a row.
  void mark(PrefixRow& row, std::span<const int32_t> tokens);
  // The row has computed its next block: `tokens` are the block's, `pages` the
  // row's, one a group (-1 = none). `generated`: not all of it as prompt.
  AddedBlock add(PrefixRow& row, std::span<const int32_t> tokens, std::span<const int32_t> pages,
                 bool generated = false);
  // As add(), of a block that was loaded from where it is saved.
  AddedBlock add_saved(PrefixRow& row, std::span<const int32_t> tokens,
                       std::span<const int32_t> pages, bool generated);
  // Keeps a checkpoint of the recurrent state at the end of the row's last block.
  // The slot is the caller's to put afterwards; nothing if there is one already.
  void keep_state(const PrefixRow& row, int32_t slot);
  bool has_state(const PrefixRow& row) const;
  // The row is done, or gave up.
  void leave(PrefixRow& row);

  // Evicts until `wanted` pages of the group are free. False if that can't be.
  bool evict_pages(size_t group, int32_t wanted);
  bool evict_slots(int32_t wanted);
  // Evicts about `bytes` and not less, if there are as many; returns what it was.
  int64_t evict_bytes(int64_t bytes);
  // Forgets what no row is at, in one namespace or in all.
  void clear(const CacheNamespace& space);
  void clear();

  // The block longest unsaved, parents before their children; kNoNode = none.
  NodeId next_unsaved() const;
  void mark_saved(NodeId id);
  bool saved(NodeId id) const { return block(id).unsaved_rank == 0; }
  // What a block has: its page in a group, its checkpoint; -1 = none.
  const PrefixTree& tree() const { return tree_; }
  int32_t page(NodeId id, size_t group) const { return place(id, group).page; }
  int32_t state_slot(NodeId id) const { return block(id).state_slot; }
  bool generated(NodeId id) const { return block(id).generated; }

  int64_t blocks() const { return tree_.blocks(); }
  int64_t pages(size_t group) const { return kept_[group]; }
  int64_t states() const { return static_cast<int64_t>(states_.size()); }
  // Of the pages and states it names, those that rows use too included.
  int64_t bytes() const;

  // Aborts unless the tree, its books and the pools agree. O(everything).
  void check() const;

 private:
  struct Block {
    uint64_t tick = 0;    // of last use
    int32_t pins = 0;     // rows whose tail or mark it is
    int32_t pending = 0;  // rows computing it
    int32_t state_slot = -1;
    bool ready = false;  // computed, pages or not
    bool generated = false;
    uint64_t leaf_rank = 0;     // in leaves_; 0 = not there
    uint64_t state_rank = 0;    // in states_
    uint64_t unsaved_rank = 0;  // in unsaved_
  };
  struct Place {
    int32_t page = -1;
    uint64_t rank = 0;  // in sliding_
  };
  // Evicted from its beginning.
  using Ranking = std::set<std::pair<uint64_t, NodeId>>;

  using Enough = std::function<bool()>;

  Block& block(NodeId id) { return blocks_[id]; }
  const Block& block(NodeId id) const { return blocks_[id]; }
  Place& place(NodeId id, size_t group) { return places_[id * groups() + group]; }
  const Place& place(NodeId id, size_t group) const { return places_[id * groups() + group]; }
  size_t groups() const { return options_.groups.size(); }
  bool sliding(size_t group) const { return options_.groups[group].window > 0; }
  BlockPool& pool(size_t group) const { return *options_.groups[group].pool; }

  bool has_full_pages(NodeId id) const;
  bool has_all_pages(NodeId id) const;
  bool unused(NodeId id) const;
  bool busy(NodeId id) const;
  int64_t first_block(size_t group, int64_t length) const;
  bool can_end(std::span<const int32_t> runs, int32_t depth, int64_t length) const;
  NodeId partial_below(NodeId parent, std::span<const int32_t> rest, bool prompt_only,
                       int32_t* alike) const;
  int32_t pending_length(std::span<const NodeId> path, int32_t length, int32_t limit) const;
  void fill_pages(PrefixHit& hit) const;

  NodeId settle(NodeId id);
  static void rank(Ranking& ranking, uint64_t& now, uint64_t wanted, NodeId id);
  void rank_leaf(NodeId id);
  void touch(NodeId id);
  void pin(NodeId id);
  void unpin(NodeId id);
  void mark_behind(NodeId id);
  void keep_page(size_t group, NodeId id, int32_t page);
  int64_t drop_page(size_t group, NodeId id);
  int64_t drop_state(NodeId id);
  int64_t remove(NodeId id);
  void prune(NodeId id);
  void clear_below(NodeId root);
  int64_t evict_sliding(size_t group, bool behind_only, const Enough& enough);
  int64_t evict_leaves(const Enough& enough);

  IndexOptions options_;
  PrefixTree tree_;
  std::vector<Block> blocks_;  // per node
  std::vector<Place> places_;  // [node, group]
  Ranking leaves_;
  std::vector<Ranking> sliding_;  // per group; empty for groups without a window
  Ranking states_;
  Ranking unsaved_;
  std::vector<int64_t> kept_;  // pages, per group
  uint64_t tick_ = 1;
};

}  // namespace tandem
