#include "backend/cpu/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/cpu/memory.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

size_t physical_bytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

// --- Memory ------------------------------------------------------------------------

PageMemory::PageMemory(int64_t page_bytes) : page_bytes_(page_bytes) {
  reserved_bytes_ = round_up(std::max<int64_t>(physical_bytes(), page_bytes_), kHugePageBytes);
  mapping_bytes_ = reserved_bytes_ + kHugePageBytes;
  void* memory =
      mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::kMemory, "[kv] could not reserve " +
                                        std::to_string(reserved_bytes_ >> 20) +
                                        " MiB of address space for pages");
  }
  mapping_ = memory;
  base_ = static_cast<uint8_t*>(memory) + -reinterpret_cast<uintptr_t>(memory) % kHugePageBytes;
#if defined(MADV_HUGEPAGE)
  madvise(base_, reserved_bytes_, MADV_HUGEPAGE);
#endif
}

PageMemory::~PageMemory() { munmap(mapping_, mapping_bytes_); }

void PageMemory::refuse(int64_t pages) const {
  throw Error(ErrorCode::kPoolExhausted, "[kv] no memory for " + std::to_string(pages) +
                                             " pages of " + std::to_string(page_bytes_) + " bytes");
}

void PageMemory::grow(int64_t pages) {
  if (pages <= pages_) return;
  if (pages > static_cast<int64_t>(reserved_bytes_) / page_bytes_) refuse(pages);
  const int64_t bytes = round_up(pages * page_bytes_, kHugePageBytes);
  if (mprotect(base_, bytes, PROT_READ | PROT_WRITE) != 0) refuse(pages);
  pages_ = pages;
}

uint8_t* PageMemory::page(int32_t id) const {
  INVARIANT(id >= 0 && id < pages_);
  return base_ + id * page_bytes_;
}

// --- The store -----------------------------------------------------------------------

CpuKvStore::CpuKvStore(const KvSpec& spec) : spec_(spec) {
  check_kv_spec(spec);
  main_ = std::make_unique<PageMemory>(page_bytes(KvSection::kMain));
  if (spec.has_base_section()) base_ = std::make_unique<PageMemory>(page_bytes(KvSection::kBase));
}

PageMemory& CpuKvStore::memory(KvSection section) const {
  INVARIANT(section == KvSection::kMain || base_);
  return section == KvSection::kMain ? *main_ : *base_;
}

int64_t CpuKvStore::pages(KvSection section) const {
  return section == KvSection::kBase && !base_ ? 0 : memory(section).pages();
}

void CpuKvStore::grow(KvSection section, int64_t pages) { memory(section).grow(pages); }

void CpuKvStore::copy_page(KvSection section, int32_t from, int32_t to) {
  const PageMemory& pages = memory(section);
  std::memcpy(pages.page(to), pages.page(from), static_cast<size_t>(pages.page_bytes()));
}

void CpuKvStore::read_page(KvSection section, int32_t page, std::span<std::byte> out) const {
  const PageMemory& pages = memory(section);
  INVARIANT(std::ssize(out) == pages.page_bytes());
  std::memcpy(out.data(), pages.page(page), out.size());
}

void CpuKvStore::write_page(KvSection section, int32_t page, std::span<const std::byte> in) {
  const PageMemory& pages = memory(section);
  INVARIANT(std::ssize(in) == pages.page_bytes());
  std::memcpy(pages.page(page), in.data(), in.size());
}

KvFormat CpuKvStore::format(KvSection section, int layer) const {
  return section == KvSection::kBase ? KvFormat{spec_.base} : spec_.format(layer);
}

KvPlanes CpuKvStore::planes(KvSection section, int layer) const {
  INVARIANT(layer >= 0 && layer < spec_.layers);
  const PageMemory& pages = memory(section);
  KvPlanes planes;
  planes.base = pages.base();
  planes.page_bytes = pages.page_bytes();
  for (int before = 0; before <= layer; before++) {
    planes.layer_at += spec_.kv_heads * (planes.k_head_bytes + planes.v_head_bytes);
    planes.k_format = k_plane_format(format(section, before));
    planes.v_format = v_plane_format(format(section, before));
    planes.k_head_bytes = kPageTokens * planes.k_format.token_bytes(spec_.k_dim);
    planes.v_head_bytes = kPageTokens * planes.v_format.token_bytes(spec_.v_dim);
  }
  planes.v_at = spec_.kv_heads * planes.k_head_bytes;
  return planes;
}

KvLayer CpuKvStore::layer(int layer) const {
  KvLayer view;
  view.main = planes(KvSection::kMain, layer);
  if (base_) {
    view.base = planes(KvSection::kBase, layer);
    view.base_tokens = spec_.quant_start;
  }
  return view;
}

}  // namespace tandem::cpu
