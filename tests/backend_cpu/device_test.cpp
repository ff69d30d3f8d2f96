#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pages.h"
#include "base/error.h"

using namespace tandem;

TEST_CASE("an instruction set is forced by name, and a wrong name lists the right ones") {
  for (const cpu::Isa isa : cpu::testable_isas()) CHECK(cpu::choose_isa(cpu::isa_name(isa)) == isa);
  CHECK(cpu::choose_isa("") == cpu::available_isas().back());
  CHECK_THROWS_WITH_AS(cpu::choose_isa("sse9"), doctest::Contains("scalar"), Error);
}

TEST_CASE("the backend tells its instruction set and threads") {
  setenv("TANDEM_ISA", "scalar", 1);
  CHECK(make_cpu_backend({.threads = 3})->device() == "scalar, 3 threads");
  CHECK(make_cpu_backend({.threads = 1})->device() == "scalar, 1 thread");
  setenv("TANDEM_ISA", "mmx", 1);
  CHECK_THROWS_WITH_AS(make_cpu_backend({}), doctest::Contains("'mmx'"), Error);
  unsetenv("TANDEM_ISA");
}

TEST_CASE("thread counts below 1 or above 1024 are refused") {
  for (const int threads : {-1, 1025}) {
    CHECK_THROWS_WITH_AS(make_cpu_backend({.threads = threads}),
                         doctest::Contains(std::to_string(threads).c_str()), Error);
  }
}

TEST_CASE("pages keep their place and contents as the store grows") {
  cpu::CpuKvStore store({2, 3, 16, 16, 0, KvCodec::kF16});
  CHECK(store.pages() == 0);
  CHECK(store.page_bytes() == kv_page_bytes(store.spec()));
  store.grow(2);
  uint8_t* page = store.planes(1).k(1, 2);
  page[5] = 77;
  store.grow(300);
  CHECK(store.pages() == 300);
  CHECK(store.planes(1).k(1, 2) == page);
  CHECK(page[5] == 77);
  store.copy_page(1, 299);
  CHECK(store.planes(1).k(299, 2)[5] == 77);
  CHECK(store.planes(0).k(299, 2)[5] == 0);
}

TEST_CASE("pages beyond all memory exhaust the pool, and the store goes on") {
  cpu::CpuKvStore store({30, 8, 128, 128, 0, KvCodec::kF32});
  CHECK_THROWS_WITH_AS(store.grow(int64_t{1} << 40), doctest::Contains("pages"), Error);
  store.grow(1);
  CHECK(store.pages() == 1);
}

TEST_CASE("a codec that the kernels lack is refused by name") {
  CHECK_THROWS_WITH_AS(cpu::CpuKvStore({1, 1, 32, 32, 0, KvCodec::kQ4}), doctest::Contains("q4"),
                       Error);
}

TEST_CASE("blocks and stores give back the memory they took, and no other") {
  const auto mapped_pages = [] {
    std::ifstream file("/proc/self/statm");
    int64_t pages = 0;
    file >> pages;
    return pages;
  };
  const int64_t before = mapped_pages();
  {
    cpu::CpuKvStore store({2, 3, 16, 16, 0, KvCodec::kF16});
    store.grow(5);
    cpu::Block small(100);
    cpu::Block large(3 << 20);
    CHECK(large.bytes() >= 3 << 20);
    CHECK(reinterpret_cast<uintptr_t>(large.data()) % cpu::kHugePageBytes == 0);
    CHECK(mapped_pages() > before);
  }
  CHECK(mapped_pages() == before);
}
