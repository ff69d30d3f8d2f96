// Who owns which page of one cache group, in integers only. The pages' contents
// live in a KvStore of the same size.
//
// Free pages are reused last in, first out (they are still warm); pages never
// used before follow in ascending order, so a store need not grow early.
// Putting back a free page or naming one outside the pool aborts: such a bug
// would let two rows write to one page. A plain value; no thread of its own.
//
//   total = available + used,  used = cached (only the prefix index holds them) + rows'
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

class BlockPool {
 public:
  explicit BlockPool(int32_t pages = 0) { grow(pages); }

  // A free page, now with one reference. Throws Error(kPoolExhausted).
  int32_t take();
  // One more reference to a page in use.
  void share(int32_t page);
  // One reference less; at none the page is free.
  void put(int32_t page);
  // The prefix index's reference to a page in use: at most one a page.
  void keep(int32_t page);
  void drop(int32_t page);
  // Raises the number of pages to `pages`.
  void grow(int32_t pages);

  int32_t references(int32_t page) const;
  bool kept(int32_t page) const { return references(page) > 0 && kept_[page]; }
  // Kept, and held by no one else.
  bool cached(int32_t page) const { return references(page) == 1 && kept_[page]; }
  int32_t total() const { return static_cast<int32_t>(references_.size()); }
  int32_t available() const { return total() - used_; }
  int32_t used() const { return used_; }
  int32_t cached() const { return cached_; }

  // Aborts unless free + used = total, no free page has references, and the count
  // of cached pages is right. O(pages).
  void check() const;

 private:
  std::vector<int32_t> references_;  // per page
  std::vector<bool> kept_;           // per page
  std::vector<int32_t> free_;        // put back, last on top
  int32_t fresh_ = 0;                // pages from here on were never taken
  int32_t used_ = 0;
  int32_t cached_ = 0;
};

}  // namespace tandem
