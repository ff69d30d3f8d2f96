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

int64_t codec_bytes(KvCodec codec) {
  switch (codec) {
    case KvCodec::kF32: return 4;
    case KvCodec::kF16:
    case KvCodec::kBF16: return 2;
    default:
      throw Error(ErrorCode::kUnsupported, std::string("[kv] the cpu backend keeps keys and "
                                                       "values as f32, f16 or bf16, not ") +
                                               kv_codec_name(codec));
  }
}

size_t physical_bytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

CpuKvStore::CpuKvStore(const KvSpec& spec) : spec_(spec) {
  INVARIANT(spec.layers > 0 && spec.kv_heads > 0 && spec.k_dim > 0 && spec.v_dim > 0);
  element_bytes_ = codec_bytes(spec.codec);
  layer_bytes_ = int64_t{kPageTokens} * spec.kv_heads * (spec.k_dim + spec.v_dim) * element_bytes_;
  page_bytes_ = layer_bytes_ * spec.layers;
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

CpuKvStore::~CpuKvStore() { munmap(mapping_, mapping_bytes_); }

void CpuKvStore::refuse(int64_t pages) const {
  throw Error(ErrorCode::kPoolExhausted, "[kv] no memory for " + std::to_string(pages) +
                                             " pages of " + std::to_string(page_bytes_) + " bytes");
}

void CpuKvStore::grow(int64_t pages) {
  if (pages <= pages_) return;
  if (pages > static_cast<int64_t>(reserved_bytes_) / page_bytes_) refuse(pages);
  const int64_t bytes = round_up(pages * page_bytes_, kHugePageBytes);
  if (mprotect(base_, bytes, PROT_READ | PROT_WRITE) != 0) refuse(pages);
  pages_ = pages;
}

void CpuKvStore::copy_page(int32_t from, int32_t to) {
  INVARIANT(from >= 0 && from < pages_ && to >= 0 && to < pages_);
  std::memcpy(base_ + to * page_bytes_, base_ + from * page_bytes_, page_bytes_);
}

KvPlanes CpuKvStore::planes(int layer) const {
  INVARIANT(layer >= 0 && layer < spec_.layers);
  KvPlanes planes;
  planes.base = base_;
  planes.page_bytes = page_bytes_;
  planes.layer_at = layer * layer_bytes_;
  planes.k_head_bytes = int64_t{kPageTokens} * spec_.k_dim * element_bytes_;
  planes.v_at = spec_.kv_heads * planes.k_head_bytes;
  planes.v_head_bytes = int64_t{kPageTokens} * spec_.v_dim * element_bytes_;
  planes.codec = spec_.codec;
  return planes;
}

}  // namespace tandem::cpu
