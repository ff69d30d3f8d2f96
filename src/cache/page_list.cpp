#include "cache/page_list.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tandem {

namespace {

void require(const BlockPool& pool, int32_t pages) {
  if (pages <= pool.available()) return;
  throw Error(ErrorCode::kPoolExhausted, "[page_list] " + std::to_string(pages) +
                                             " pages are needed and " +
                                             std::to_string(pool.available()) + " are free");
}

}  // namespace

int32_t PageList::pages_missing(int64_t tokens) const {
  return static_cast<int32_t>(std::max<int64_t>(0, pages_of(tokens) - std::ssize(pages_)));
}

void PageList::cover(int64_t tokens, BlockPool& pool) {
  const int32_t missing = pages_missing(tokens);
  require(pool, missing);
  for (int32_t i = 0; i < missing; ++i) pages_.push_back(pool.take());
}

int32_t PageList::pages_shared(int64_t begin, int64_t end, const BlockPool& pool) const {
  int32_t shared = 0;
  const int64_t last = std::min<int64_t>(pages_of(end), std::ssize(pages_));
  for (int64_t i = begin / page_tokens_; i < last; ++i) {
    shared += pages_[i] >= 0 && pool.references(pages_[i]) > 1;
  }
  return shared;
}

std::vector<PageCopy> PageList::make_writable(int64_t begin, int64_t end, BlockPool& pool) {
  require(pool, pages_shared(begin, end, pool));
  std::vector<PageCopy> copies;
  const int64_t last = std::min<int64_t>(pages_of(end), std::ssize(pages_));
  for (int64_t i = begin / page_tokens_; i < last; ++i) {
    if (pages_[i] < 0 || pool.references(pages_[i]) == 1) continue;
    copies.push_back({pages_[i], pool.take()});
    pool.put(pages_[i]);
    pages_[i] = copies.back().to;
  }
  return copies;
}

void PageList::adopt(std::span<const int32_t> pages, BlockPool& pool) {
  INVARIANT(pages_.empty());
  pages_.assign(pages.begin(), pages.end());
  while (dropped_ < std::ssize(pages_) && pages_[dropped_] < 0) ++dropped_;
  for (size_t i = dropped_; i < pages_.size(); ++i) pool.share(pages_[i]);
}

void PageList::replace(size_t i, int32_t page, BlockPool& pool) {
  INVARIANT(i < pages_.size() && pages_[i] >= 0);
  pool.share(page);
  pool.put(pages_[i]);
  pages_[i] = page;
}

PageList PageList::share(int64_t tokens, BlockPool& pool) const {
  PageList copy(page_tokens_);
  copy.adopt(pages().first(std::min<int64_t>(pages_of(tokens), std::ssize(pages_))), pool);
  return copy;
}

void PageList::drop_before(int64_t position, BlockPool& pool) {
  const int64_t whole = std::min<int64_t>(position / page_tokens_, std::ssize(pages_));
  for (; dropped_ < whole; ++dropped_) {
    pool.put(pages_[dropped_]);
    pages_[dropped_] = -1;
  }
}

void PageList::trim(int64_t tokens, BlockPool& pool) {
  const int64_t left = std::min<int64_t>(pages_of(tokens), std::ssize(pages_));
  for (int64_t i = std::max<int64_t>(left, dropped_); i < std::ssize(pages_); ++i) {
    pool.put(pages_[i]);
  }
  pages_.resize(left);
  dropped_ = std::min<int32_t>(dropped_, static_cast<int32_t>(left));
}

void PageList::release(BlockPool& pool) { trim(0, pool); }

}  // namespace tandem
