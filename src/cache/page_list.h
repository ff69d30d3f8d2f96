// The pages of one row in one cache group: the i-th holds its positions
// [i * page_tokens, (i + 1) * page_tokens).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace tandem {

class PageList {
 public:
  explicit PageList(int32_t page_tokens) : page_tokens_(page_tokens) {}

  // How many pages the pool must still give for `tokens` positions.
  int32_t pages_missing(int64_t tokens) const;
  // Takes pages until positions [0, tokens) have one. Throws Error(kPoolExhausted);
  // the pages taken until then stay with the row.
  void cover(int64_t tokens, BlockPool& pool);
  // Gives back pages that hold no position >= `position`; their entries become -1.
  void drop_before(int64_t position, BlockPool& pool);
  // Gives back everything.
  void release(BlockPool& pool);

  std::span<const int32_t> pages() const { return pages_; }

 private:
  int32_t page_tokens_;
  std::vector<int32_t> pages_;  // -1 = given back
  int32_t dropped_ = 0;         // leading entries that are -1
};

}  // namespace tandem
