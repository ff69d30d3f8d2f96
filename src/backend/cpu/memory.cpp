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

uint8_t* Arena::take_bytes(size_t bytes) {
  bytes = round_up(std::max<size_t>(bytes, 1), kLineBytes);
  if (blocks_.empty() || used_ + bytes > blocks_.back().bytes()) {
    blocks_.emplace_back(std::max({bytes, capacity_bytes(), kArenaBytesMin}));
    used_ = 0;
  }
  uint8_t* memory = blocks_.back().data() + used_;
  used_ += bytes;
  return memory;
}

void Arena::reset() {
  used_ = 0;
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
