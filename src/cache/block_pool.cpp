#include "cache/block_pool.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

int32_t BlockPool::take() {
  int32_t page = 0;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else if (fresh_ < total()) {
    page = fresh_++;
  } else {
    throw Error(ErrorCode::kPoolExhausted,
                "[block_pool] all " + std::to_string(total()) + " pages are in use");
  }
  INVARIANT(references_[page] == 0);
  references_[page] = 1;
  ++used_;
  return page;
}

void BlockPool::share(int32_t page) {
  INVARIANT(references(page) > 0);
  cached_ -= cached(page);
  ++references_[page];
}

void BlockPool::put(int32_t page) {
  // The last reference of a kept page is the index's, which drops it.
  INVARIANT(references(page) > (kept_[page] ? 1 : 0));
  if (--references_[page] == 0) {
    free_.push_back(page);
    --used_;
  }
  cached_ += cached(page);
}

void BlockPool::keep(int32_t page) {
  INVARIANT(references(page) > 0 && !kept_[page]);
  ++references_[page];
  kept_[page] = true;
}

void BlockPool::drop(int32_t page) {
  INVARIANT(kept(page));
  cached_ -= cached(page);
  kept_[page] = false;
  put(page);
}

void BlockPool::grow(int32_t pages) {
  INVARIANT(pages >= total());
  references_.resize(pages, 0);
  kept_.resize(pages, false);
}

int32_t BlockPool::references(int32_t page) const {
  INVARIANT(page >= 0 && page < total());
  return references_[page];
}

void BlockPool::check() const {
  INVARIANT(used_ + static_cast<int32_t>(free_.size()) + (total() - fresh_) == total());
  INVARIANT(std::count_if(references_.begin(), references_.end(),
                          [](int32_t n) { return n > 0; }) == used_);
  std::vector<bool> seen(references_.size());
  for (int32_t page : free_) {
    INVARIANT(page >= 0 && page < fresh_ && references_[page] == 0 && !seen[page]);
    seen[page] = true;
  }
  int32_t cached_pages = 0;
  for (int32_t page = 0; page < total(); ++page) {
    INVARIANT(!kept_[page] || references_[page] > 0);
    cached_pages += cached(page);
  }
  INVARIANT(cached_pages == cached_);
}

}  // namespace tandem
