#include "cache/block_pool.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "base/error.h"

using namespace tandem;

TEST_CASE("pages never used are given out in ascending order") {
  BlockPool pool(3);
  CHECK(pool.take() == 0);
  CHECK(pool.take() == 1);
  CHECK(pool.take() == 2);
}

TEST_CASE("the page put back last is taken first, before any unused one") {
  BlockPool pool(4);
  const int32_t a = pool.take(), b = pool.take();
  pool.put(a);
  pool.put(b);
  CHECK(pool.take() == b);
  CHECK(pool.take() == a);
  CHECK(pool.take() == 2);
}

TEST_CASE("an exhausted pool throws, and serves again after it has grown") {
  BlockPool pool(1);
  pool.take();
  try {
    pool.take();
    FAIL("must throw");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kPoolExhausted);
  }
  pool.check();
  pool.grow(2);
  CHECK(pool.take() == 1);
}

TEST_CASE("a shared page is free only after its last reference is put back") {
  BlockPool pool(1);
  const int32_t page = pool.take();
  pool.share(page);
  pool.put(page);
  CHECK(pool.available() == 0);
  pool.put(page);
  CHECK(pool.available() == 1);
}

TEST_CASE("a pool behaves as a naive map of counts under random use") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  BlockPool pool(0);
  std::map<int32_t, int> naive;  // page -> references
  int total = 0;
  const auto any_used = [&] { return std::next(naive.begin(), random() % naive.size())->first; };
  for (int i = 0; i < 20000; ++i) {
    const uint32_t dice = random() % 100;
    if (dice < 45) {
      if (static_cast<int>(naive.size()) == total) {
        CHECK_THROWS_AS(pool.take(), Error);
      } else {
        const int32_t page = pool.take();
        REQUIRE(naive.count(page) == 0);
        REQUIRE(page < total);
        naive[page] = 1;
      }
    } else if (dice < 55 && !naive.empty()) {
      const int32_t page = any_used();
      pool.share(page);
      ++naive[page];
    } else if (dice < 98 && !naive.empty()) {
      const int32_t page = any_used();
      pool.put(page);
      if (--naive[page] == 0) naive.erase(page);
    } else if (dice >= 98 && total < 300) {
      pool.grow(total += random() % 8);
    }
    REQUIRE(pool.used() == static_cast<int32_t>(naive.size()));
    REQUIRE(pool.total() == total);
    if (i % 64 == 0) pool.check();
  }
  for (const auto& [page, count] : naive) REQUIRE(pool.references(page) == count);
}
