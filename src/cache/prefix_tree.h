// The tree behind the prefix index: a node is a whole block of tokens behind all
// those on its path, found by a chain of hashes and checked by its tokens. Knows
// nothing of pages. A plain value.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/cache_namespace.h"

namespace tandem {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

class PrefixTree {
 public:
  // `hash_mask`: fewer bits make collisions, for tests.
  explicit PrefixTree(int32_t page_tokens, uint64_t hash_mask = ~uint64_t{0})
      : page_tokens_(page_tokens), hash_mask_(hash_mask) {}

  // The namespace's root (depth 0, no tokens): made when missing, or kNoNode.
  NodeId root(const CacheNamespace& space);
  NodeId find_root(const CacheNamespace& space) const;
  // The block of `tokens` below a node: made when missing, or kNoNode.
  NodeId child(NodeId parent, std::span<const int32_t> tokens);
  NodeId find_child(NodeId parent, std::span<const int32_t> tokens) const;
  // The blocks that whole blocks of `tokens` match, from below the root on.
  std::vector<NodeId> walk(NodeId root, std::span<const int32_t> tokens) const;
  // Takes out a node without children; its id may be given out again.
  void remove(NodeId id);

  bool alive(NodeId id) const { return nodes_[id].alive; }
  bool is_root(NodeId id) const { return nodes_[id].parent == kNoNode; }
  NodeId parent(NodeId id) const { return nodes_[id].parent; }
  int32_t depth(NodeId id) const { return nodes_[id].depth; }  // blocks up to its end
  std::span<const NodeId> children(NodeId id) const { return nodes_[id].children; }
  std::span<const int32_t> tokens(NodeId id) const;

  int64_t blocks() const { return blocks_; }
  // Ids are below this.
  NodeId capacity() const { return static_cast<NodeId>(nodes_.size()); }
  // Aborts unless links, hashes and counts agree.
  void check() const;

 private:
  struct Node {
    bool alive = false;
    uint64_t hash = 0;
    NodeId parent = kNoNode;
    int32_t place = 0;  // among the parent's children
    int32_t depth = 0;
    std::vector<NodeId> children;
    CacheNamespace space;  // of a root
  };

  NodeId make_node(uint64_t hash, NodeId parent);
  uint64_t hash_below(NodeId parent, std::span<const int32_t> tokens) const;
  NodeId match(uint64_t hash, NodeId parent, std::span<const int32_t> tokens) const;

  int32_t page_tokens_;
  uint64_t hash_mask_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;  // [node, page_tokens]
  std::vector<NodeId> free_;
  std::unordered_map<CacheNamespace, NodeId> roots_;
  std::unordered_multimap<uint64_t, NodeId> by_hash_;
  int64_t blocks_ = 0;
};

}  // namespace tandem
