#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tandem::cpu {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kArenaBytesMin = size_t{1} << 20;

}  // namespace

Block::Block(size_t bytes) {
  if (bytes == 0) return;
  // Rounded to whole huge pages only where that wastes little.
  bytes_ = round_up(bytes, bytes >= 4 * kHugePageBytes ? kHugePageBytes : 4096);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::kMemory,
                "[cpu] could not get " + std::to_string(bytes_ >> 20) + " MiB of memory");
  }
  data_ = static_cast<uint8_t*>(memory);
#if defined(MADV_HUGEPAGE)
  if (bytes_ >= kHugePageBytes) madvise(data_, bytes_, MADV_HUGEPAGE);
#endif
}

Block::~Block() {
  if (data_) munmap(data_, bytes_);
}

void* Arena::take_bytes(size_t bytes) {
  // The newest first: it is the warmest in the caches.
  for (size_t i = free_.size(); i-- > 0;) {
    if (free_[i].bytes != bytes) continue;
    void* memory = free_[i].memory;
    free_[i] = free_.back();
    free_.pop_back();
    return memory;
  }
  const size_t rounded = round_up(std::max<size_t>(bytes, 1), kLineBytes);
  if (blocks_.empty() || used_ + rounded > blocks_.back().bytes()) {
    blocks_.emplace_back(std::max({rounded, capacity_bytes(), kArenaBytesMin}));
    used_ = 0;
  }
  uint8_t* memory = blocks_.back().data() + used_;
  used_ += rounded;
  return memory;
}

void Arena::reset() {
  used_ = 0;
  round_++;
  free_.clear();
  if (blocks_.size() <= 1) return;
  const size_t total = capacity_bytes();
  blocks_.clear();
  blocks_.emplace_back(total);
}

size_t Arena::capacity_bytes() const {
  size_t total = 0;
  for (const auto& block : blocks_) total += block.bytes();
  return total;
}

}  // namespace tandem::cpu
