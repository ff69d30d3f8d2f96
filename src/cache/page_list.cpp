#include "cache/page_list.h"

#include <algorithm>

namespace tandem {

int32_t PageList::pages_missing(int64_t tokens) const {
  const int64_t needed = (tokens + page_tokens_ - 1) / page_tokens_;
  return static_cast<int32_t>(std::max<int64_t>(0, needed - static_cast<int64_t>(pages_.size())));
}

void PageList::cover(int64_t tokens, BlockPool& pool) {
  for (int32_t missing = pages_missing(tokens); missing > 0; --missing) {
    pages_.push_back(pool.take());
  }
}

void PageList::drop_before(int64_t position, BlockPool& pool) {
  const int64_t whole = std::min<int64_t>(position / page_tokens_, std::ssize(pages_));
  for (; dropped_ < whole; ++dropped_) {
    pool.put(pages_[dropped_]);
    pages_[dropped_] = -1;
  }
}

void PageList::release(BlockPool& pool) {
  for (size_t i = dropped_; i < pages_.size(); ++i) pool.put(pages_[i]);
  pages_.clear();
  dropped_ = 0;
}

}  // namespace tandem
