#include "cache/page_list.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

using namespace tandem;

namespace {

constexpr int32_t kPage = 4;

std::vector<int32_t> pages_of(const PageList& list) {
  return {list.pages().begin(), list.pages().end()};
}

}  // namespace

TEST_CASE("a row's list takes a page only when a position needs one") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(4, pool);
  CHECK(pool.used() == 1);
  list.cover(4, pool);
  CHECK(pool.used() == 1);
  CHECK(list.pages_missing(9) == 2);
  list.cover(9, pool);
  CHECK(list.pages().size() == 3);
}

TEST_CASE("a row that can't get all the pages it needs gets none") {
  BlockPool pool(3);
  PageList list(kPage);
  list.cover(4, pool);
  CHECK_THROWS_AS(list.cover(16, pool), Error);
  CHECK(pool.used() == 1);
  CHECK(list.pages().size() == 1);
  list.cover(12, pool);
  CHECK(pool.used() == 3);
}

TEST_CASE("a row's list gives back pages wholly behind a position, once") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(12, pool);
  list.drop_before(7, pool);
  CHECK(pages_of(list) == std::vector{-1, 1, 2});
  list.drop_before(7, pool);
  CHECK(pool.used() == 2);
  list.release(pool);
  CHECK(pool.used() == 0);
  pool.check();
}

TEST_CASE("trimming gives back the pages behind the last token kept") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(16, pool);
  list.trim(5, pool);
  CHECK(pages_of(list) == std::vector{0, 1});
  list.trim(4, pool);
  CHECK(pages_of(list) == std::vector{0});
  list.trim(9, pool);
  CHECK(pool.used() == 1);
}

TEST_CASE("trimming before the window leaves nothing to give back twice") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(16, pool);
  list.drop_before(8, pool);
  list.trim(4, pool);
  CHECK(pages_of(list) == std::vector{-1});
  CHECK(pool.used() == 0);
  list.cover(8, pool);
  list.release(pool);
  CHECK(pool.used() == 0);
  pool.check();
}

TEST_CASE("a fork shares every page and copies the one it writes to") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(6, pool);
  PageList fork = list.share(6, pool);
  CHECK(pool.used() == 2);
  CHECK(fork.pages_shared(6, 9, pool) == 1);
  const std::vector<PageCopy> copies = fork.make_writable(6, 9, pool);
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].from == 1);
  CHECK(copies[0].to == 2);
  CHECK(pages_of(list) == std::vector{0, 1});
  CHECK(pages_of(fork) == std::vector{0, 2});
  CHECK(list.make_writable(6, 8, pool).empty());
}

TEST_CASE("a row that can't copy all the pages it writes to copies none") {
  BlockPool pool(3);
  PageList list(kPage);
  list.cover(8, pool);
  PageList fork = list.share(8, pool);
  CHECK_THROWS_AS(fork.make_writable(0, 8, pool), Error);
  CHECK(pages_of(fork) == pages_of(list));
  CHECK(pool.used() == 2);
}

TEST_CASE("a snapshot keeps its pages through the row's trims, appends and end") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(8, pool);
  PageList snapshot = list.share(6, pool);
  list.trim(3, pool);
  const std::vector<PageCopy> copies = list.make_writable(3, 4, pool);
  list.cover(12, pool);
  CHECK(copies.size() == 1);
  for (int32_t page : snapshot.pages()) {
    CHECK(pool.references(page) == 1);
    CHECK(std::ranges::count(list.pages(), page) == 0);
  }
  list.release(pool);
  CHECK(pages_of(snapshot) == std::vector{0, 1});
  CHECK(pool.used() == 2);
  snapshot.release(pool);
  CHECK(pool.used() == 0);
  pool.check();
}

TEST_CASE("a snapshot leaves out what the row has beyond its length") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(16, pool);
  const PageList snapshot = list.share(5, pool);
  CHECK(snapshot.pages().size() == 2);
}

TEST_CASE("a list takes over the pages of a hit, those behind the window left out") {
  BlockPool pool(8);
  PageList list(kPage);
  list.cover(12, pool);
  list.drop_before(4, pool);
  PageList other(kPage);
  other.adopt(list.pages(), pool);
  CHECK(pool.references(1) == 2);
  other.drop_before(8, pool);
  CHECK(pool.references(1) == 1);
  other.release(pool);
  CHECK(pool.references(2) == 1);
}

TEST_CASE("a page is replaced by another of the same content") {
  BlockPool pool(8);
  PageList a(kPage), b(kPage);
  a.cover(4, pool);
  b.cover(4, pool);
  b.replace(0, a.pages()[0], pool);
  CHECK(pool.used() == 1);
  b.replace(0, a.pages()[0], pool);
  CHECK(pool.references(0) == 2);
}

TEST_CASE("a page that only the index keeps counts as cached") {
  BlockPool pool(4);
  const int32_t page = pool.take();
  pool.keep(page);
  CHECK(pool.cached() == 0);
  pool.put(page);
  CHECK(pool.cached() == 1);
  CHECK(pool.used() == 1);
  pool.share(page);
  CHECK(pool.cached() == 0);
  pool.drop(page);
  CHECK(pool.cached() == 0);
  CHECK(pool.used() == 1);
  pool.put(page);
  CHECK(pool.available() == 4);
  pool.check();
}
