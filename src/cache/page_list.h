// The pages of one row in one cache group: the i-th holds its positions
// [i * page_tokens, (i + 1) * page_tokens).
//
// Pages may be shared with other rows, with snapshots and with the prefix index.
// A row writes only to pages that it alone holds: make_writable() first. So what
// another holder sees never changes through this row's appends, trims or end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace tandem {

// The store has to copy page `from` to page `to` before anything else runs on them.
struct PageCopy {
  int32_t from = 0;
  int32_t to = 0;
};

// Every call that takes pages does so whole, or throws Error(kPoolExhausted) and
// changes nothing.
class PageList {
 public:
  explicit PageList(int32_t page_tokens) : page_tokens_(page_tokens) {}

  // How many pages the pool must still give for `tokens` positions.
  int32_t pages_missing(int64_t tokens) const;
  // Takes pages until positions [0, tokens) have one.
  void cover(int64_t tokens, BlockPool& pool);
  // How many pages of [begin, end) others hold too.
  int32_t pages_shared(int64_t begin, int64_t end, const BlockPool& pool) const;
  // Replaces pages of [begin, end) that others hold too by pages of its own.
  std::vector<PageCopy> make_writable(int64_t begin, int64_t end, BlockPool& pool);

  // Fills an empty list with pages that others hold: one more reference to each.
  // Leading -1 are pages behind the window.
  void adopt(std::span<const int32_t> pages, BlockPool& pool);
  // Takes another page of the same content instead of the i-th; nothing if it is
  // that one already.
  void replace(size_t i, int32_t page, BlockPool& pool);
  // An independent list of the pages of positions [0, tokens), sharing them.
  PageList share(int64_t tokens, BlockPool& pool) const;

  // Gives back pages that hold no position >= `position`; their entries become -1.
  void drop_before(int64_t position, BlockPool& pool);
  // Gives back pages that hold no position < `tokens`.
  void trim(int64_t tokens, BlockPool& pool);
  // Gives back everything.
  void release(BlockPool& pool);

  std::span<const int32_t> pages() const { return pages_; }

 private:
  int64_t pages_of(int64_t tokens) const { return (tokens + page_tokens_ - 1) / page_tokens_; }

  int32_t page_tokens_;
  std::vector<int32_t> pages_;  // -1 = given back
  int32_t dropped_ = 0;         // leading entries that are -1
};

}  // namespace tandem
