#include "text/stop_matcher.h"

#include "base/error.h"

namespace tandem {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)), nodes_(1) {
  for (size_t i = 0; i < stops_.size(); ++i) {
    if (stops_[i].empty()) {
      const std::string name = "stop[" + std::to_string(i) + "]";
      throw Error(ErrorCode::kInvalid, name + " is empty; a stop string needs a character", name);
    }
    insert(i);
  }
  link();
}

void StopMatcher::insert(size_t which) {
  int32_t node = 0;
  for (const char byte : stops_[which]) {
    int32_t next = child(node, byte);
    if (next == kNone) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_[node].next.emplace_back(byte, next);
      nodes_.push_back({.next = {}, .depth = nodes_[node].depth + 1});
    }
    node = next;
  }
  if (nodes_[node].stop == kNone) nodes_[node].stop = static_cast<int32_t>(which);
}

// Breadth first, so that every fallback is complete before it is used.
void StopMatcher::link() {
  std::vector<int32_t> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t node = queue[i];
    for (const auto& [byte, next] : nodes_[node].next) {
      Node& target = nodes_[next];
      target.fallback = node == 0 ? 0 : step(nodes_[node].fallback, byte);
      if (target.stop == kNone) target.stop = nodes_[target.fallback].stop;
      queue.push_back(next);
    }
  }
}

int32_t StopMatcher::child(int32_t node, char byte) const {
  for (const auto& [label, next] : nodes_[node].next) {
    if (label == byte) return next;
  }
  return kNone;
}

int32_t StopMatcher::step(int32_t node, char byte) const {
  for (;;) {
    const int32_t next = child(node, byte);
    if (next != kNone) return next;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

StopMatcher::Result StopMatcher::push(std::string_view text) {
  if (matched_) return {.text = {}, .matched = true, .which = which_};
  const size_t seen = held_.size();
  held_ += text;
  for (size_t i = seen; i < held_.size(); ++i) {
    state_ = step(state_, held_[i]);
    if (nodes_[state_].stop == kNone) continue;
    matched_ = true;
    which_ = static_cast<size_t>(nodes_[state_].stop);
    held_.resize(i + 1 - stops_[which_].size());
    return {.text = std::move(held_), .matched = true, .which = which_};
  }
  const size_t safe = held_.size() - nodes_[state_].depth;
  Result result{.text = held_.substr(0, safe)};
  held_.erase(0, safe);
  return result;
}

StopMatcher::Result StopMatcher::flush() {
  if (matched_) return {.text = {}, .matched = true, .which = which_};
  Result result{.text = std::move(held_)};
  held_.clear();
  state_ = 0;
  return result;
}

}  // namespace tandem
