#include "cache/ledger.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

using namespace tandem;

TEST_CASE("what is reserved is gone from the budget until it is released") {
  Ledger ledger(100);
  ledger.reserve(MemoryUse::kWeights, 60);
  CHECK(ledger.free_bytes() == 40);
  CHECK_FALSE(ledger.can_reserve(41));
  ledger.release(MemoryUse::kWeights, 60);
  CHECK(ledger.free_bytes() == 100);
}

TEST_CASE("more than is left is refused with the numbers, and changes nothing") {
  Ledger ledger(100);
  ledger.reserve(MemoryUse::kRows, 70);
  try {
    ledger.reserve(MemoryUse::kDrafts, 31);
    FAIL("must throw");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kMemory);
    CHECK(std::string(error.what()) ==
          "31 bytes are needed for drafts, and of the budget of 100 bytes 30 are left");
  }
  CHECK(ledger.free_bytes() == 30);
}

TEST_CASE("cached bytes can be reserved once they are evicted") {
  Ledger ledger(100);
  ledger.set(MemoryUse::kCached, 80);
  CHECK(ledger.can_reserve(100));
  CHECK(ledger.excess_bytes(50) == 30);
  CHECK_THROWS_AS(ledger.reserve(MemoryUse::kRows, 50), Error);
  ledger.set(MemoryUse::kCached, 50);
  ledger.reserve(MemoryUse::kRows, 50);
  CHECK(ledger.excess_bytes(0) == 0);
}

TEST_CASE("what is counted elsewhere is booked even over the budget") {
  Ledger ledger(100);
  ledger.set(MemoryUse::kSpill, 130);
  CHECK(ledger.free_bytes() == -30);
  CHECK_FALSE(ledger.can_reserve(0));
  CHECK(ledger.excess_bytes(0) == 30);
}

TEST_CASE("a snapshot stays as it was, and remembers the peak") {
  Ledger ledger(100);
  ledger.reserve(MemoryUse::kTransients, 90);
  ledger.release(MemoryUse::kTransients, 80);
  const LedgerSnapshot snapshot = ledger.snapshot();
  ledger.reserve(MemoryUse::kStates, 5);
  CHECK(snapshot.total_bytes() == 10);
  CHECK(snapshot.bytes(MemoryUse::kStates) == 0);
  CHECK(snapshot.peak_bytes == 90);
  CHECK(snapshot.budget_bytes == 100);
}
