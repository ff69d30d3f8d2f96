#include "cache/prefix_tree.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

std::span<const int32_t> PrefixTree::tokens(NodeId id) const {
  return std::span(tokens_).subspan(static_cast<size_t>(id) * page_tokens_, page_tokens_);
}

NodeId PrefixTree::find_root(const CacheNamespace& space) const {
  const auto it = roots_.find(space);
  return it == roots_.end() ? kNoNode : it->second;
}

NodeId PrefixTree::root(const CacheNamespace& space) {
  const NodeId found = find_root(space);
  if (found != kNoNode) return found;
  const NodeId id = make_node(chain_hash(space) & hash_mask_, kNoNode);
  nodes_[id].space = space;
  roots_.emplace(space, id);
  return id;
}

uint64_t PrefixTree::hash_below(NodeId parent, std::span<const int32_t> tokens) const {
  return chain_hash(nodes_[parent].hash, tokens) & hash_mask_;
}

NodeId PrefixTree::match(uint64_t hash, NodeId parent, std::span<const int32_t> wanted) const {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (nodes_[it->second].parent == parent && std::ranges::equal(tokens(it->second), wanted)) {
      return it->second;
    }
  }
  return kNoNode;
}

NodeId PrefixTree::find_child(NodeId parent, std::span<const int32_t> tokens) const {
  return match(hash_below(parent, tokens), parent, tokens);
}

NodeId PrefixTree::child(NodeId parent, std::span<const int32_t> tokens) {
  INVARIANT(std::ssize(tokens) == page_tokens_);
  const uint64_t hash = hash_below(parent, tokens);
  const NodeId found = match(hash, parent, tokens);
  if (found != kNoNode) return found;
  const NodeId id = make_node(hash, parent);
  std::ranges::copy(tokens, tokens_.begin() + static_cast<int64_t>(id) * page_tokens_);
  nodes_[id].depth = nodes_[parent].depth + 1;
  nodes_[id].place = static_cast<int32_t>(nodes_[parent].children.size());
  nodes_[parent].children.push_back(id);
  by_hash_.emplace(hash, id);
  ++blocks_;
  return id;
}

std::vector<NodeId> PrefixTree::walk(NodeId root, std::span<const int32_t> tokens) const {
  std::vector<NodeId> path;
  for (NodeId at = root; std::ssize(tokens) >= page_tokens_;
       tokens = tokens.subspan(page_tokens_)) {
    at = find_child(at, tokens.first(page_tokens_));
    if (at == kNoNode) break;
    path.push_back(at);
  }
  return path;
}

NodeId PrefixTree::make_node(uint64_t hash, NodeId parent) {
  NodeId id = capacity();
  if (free_.empty()) {
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + page_tokens_);
  } else {
    id = free_.back();
    free_.pop_back();
    nodes_[id] = {};
  }
  nodes_[id].alive = true;
  nodes_[id].hash = hash;
  nodes_[id].parent = parent;
  return id;
}

void PrefixTree::remove(NodeId id) {
  Node& node = nodes_[id];
  INVARIANT(node.alive && node.children.empty());
  if (is_root(id)) {
    roots_.erase(node.space);
  } else {
    auto it = by_hash_.equal_range(node.hash).first;
    while (it->second != id) ++it;
    by_hash_.erase(it);
    std::vector<NodeId>& siblings = nodes_[node.parent].children;
    siblings[node.place] = siblings.back();
    nodes_[siblings[node.place]].place = node.place;
    siblings.pop_back();
    --blocks_;
  }
  node.alive = false;
  free_.push_back(id);
}

void PrefixTree::check() const {
  int64_t roots = 0, blocks = 0;
  for (NodeId id = 0; id < capacity(); ++id) {
    const Node& node = nodes_[id];
    if (!node.alive) continue;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const Node& below = nodes_[node.children[i]];
      INVARIANT(below.alive && below.parent == id && below.place == static_cast<int32_t>(i));
      INVARIANT(below.depth == node.depth + 1);
    }
    if (is_root(id)) {
      INVARIANT(find_root(node.space) == id);
      ++roots;
    } else {
      INVARIANT(find_child(node.parent, tokens(id)) == id);
      ++blocks;
    }
  }
  INVARIANT(blocks == blocks_ && std::ssize(by_hash_) == blocks);
  INVARIANT(std::ssize(roots_) == roots);
  INVARIANT(roots + blocks + std::ssize(free_) == capacity());
}

}  // namespace tandem
