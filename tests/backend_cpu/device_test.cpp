#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <vector>

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
  CHECK(store.pages(KvSection::kMain) == 0);
  CHECK(store.page_bytes(KvSection::kMain) == kv_page_bytes(store.spec(), KvSection::kMain));
  store.grow(KvSection::kMain, 2);
  uint8_t* page = store.planes(KvSection::kMain, 1).k(1, 2);
  page[5] = 77;
  store.grow(KvSection::kMain, 300);
  CHECK(store.pages(KvSection::kMain) == 300);
  CHECK(store.planes(KvSection::kMain, 1).k(1, 2) == page);
  CHECK(page[5] == 77);
  store.copy_page(KvSection::kMain, 1, 299);
  CHECK(store.planes(KvSection::kMain, 1).k(299, 2)[5] == 77);
  CHECK(store.planes(KvSection::kMain, 0).k(299, 2)[5] == 0);
}

TEST_CASE("pages beyond all memory exhaust the pool, and the store goes on") {
  cpu::CpuKvStore store({30, 8, 128, 128, 0, KvCodec::kF32});
  CHECK_THROWS_WITH_AS(store.grow(KvSection::kMain, int64_t{1} << 40), doctest::Contains("pages"),
                       Error);
  store.grow(KvSection::kMain, 1);
  CHECK(store.pages(KvSection::kMain) == 1);
}

TEST_CASE("a page of each section is read and written as its exact bytes") {
  KvSpec spec{3, 2, 64, 64, 0, KvCodec::kF16};
  spec.formats = {kv_affine(4, 32), {KvCodec::kF16}, kv_turbo(8, 3)};
  spec.quant_start = 64;
  cpu::CpuKvStore store(spec);
  for (const KvSection section : kKvSections) {
    store.grow(section, 3);
    std::vector<std::byte> page(store.page_bytes(section)), got(page.size());
    for (size_t i = 0; i < page.size(); i++) page[i] = static_cast<std::byte>(i * 7 % 251);
    store.write_page(section, 1, page);
    store.copy_page(section, 1, 2);
    store.read_page(section, 2, got);
    CHECK(got == page);
    store.read_page(section, 0, got);
    CHECK(got == std::vector<std::byte>(page.size()));
  }
  CHECK(store.section(63) == KvSection::kBase);
  CHECK(store.section(64) == KvSection::kMain);
  CHECK(store.page_bytes(KvSection::kBase) == 32 * 3 * 2 * 128 * 2);
  // q4 g32: 4 bits and 2 x 4 bytes of 64; f16; 8 bits + 8 bytes, 3 bits + 4 bytes.
  CHECK(store.page_bytes(KvSection::kMain) == 32 * 2 * (2 * (32 + 8) + 256 + (64 + 8 + 24 + 4)));
}

TEST_CASE("a base section exists only where some layer is quantised later") {
  KvSpec spec{1, 1, 64, 64, 0, KvCodec::kF16};
  spec.quant_start = 64;
  CHECK(cpu::CpuKvStore(spec).section(0) == KvSection::kMain);
  CHECK(cpu::CpuKvStore(spec).pages(KvSection::kBase) == 0);
}

TEST_CASE("formats that a head dim does not allow are refused with what would be right") {
  const auto make = [](int dim, const KvFormat& format, int start = 0) {
    KvSpec spec = with_format({1, 1, dim, dim, 0, KvCodec::kF16}, format);
    spec.quant_start = start;
    cpu::CpuKvStore store(spec);
  };
  CHECK_THROWS_WITH_AS(make(80, kv_affine(8, 64)), doctest::Contains("80"), Error);
  CHECK_THROWS_WITH_AS(make(96, kv_turbo(8, 3)), doctest::Contains("64, 128, 256 or 512"), Error);
  CHECK_THROWS_WITH_AS(make(64, kv_affine(3, 64)), doctest::Contains("8 or 4 bits, got 3"), Error);
  CHECK_THROWS_WITH_AS(make(64, kv_affine(8, 16)), doctest::Contains("32, 64 or 128"), Error);
  CHECK_THROWS_WITH_AS(make(64, kv_turbo(8, 6)), doctest::Contains("k8v6"), Error);
  CHECK_THROWS_WITH_AS(make(64, kv_affine(8, 64), 33), doctest::Contains("multiple of 32"), Error);
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
    store.grow(KvSection::kMain, 5);
    cpu::Block small(100);
    cpu::Block large(3 << 20);
    CHECK(large.bytes() >= 3 << 20);
    CHECK(reinterpret_cast<uintptr_t>(large.data()) % cpu::kHugePageBytes == 0);
    CHECK(mapped_pages() > before);
  }
  CHECK(mapped_pages() == before);
}
