#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tandem::cpu {
namespace {

constexpr size_t kArenaBytesMin = size_t{1} << 20;
constexpr size_t kSharedBlockBytes = size_t{32} << 20;

}  // namespace

Block::Block(size_t bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePageBytes / 2;
  bytes_ = round_up(bytes, huge ? kHugePageBytes : 4096);
  mapping_bytes_ = bytes_ + (huge ? kHugePageBytes : 0);
  mapping_ =
      mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw Error(ErrorCode::kMemory,
                "[cpu] could not get " + std::to_string(bytes_ >> 20) + " MiB of memory");
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  data_ = static_cast<uint8_t*>(mapping_) + (huge ? -address % kHugePageBytes : 0);
#if defined(MADV_HUGEPAGE)
  if (huge) madvise(data_, bytes_, MADV_HUGEPAGE);
#endif
}

Block::~Block() {
  if (mapping_) munmap(mapping_, mapping_bytes_);
}

SharedBlocks::Piece SharedBlocks::take(size_t bytes) {
  const size_t rounded = round_up(bytes, kLineBytes);
  if (rounded >= kSharedBlockBytes / 2) {
    auto block = std::make_shared<Block>(rounded);
    return {block, block->data()};
  }
  if (!block_ || used_ + rounded > block_->bytes()) {
    block_ = std::make_shared<Block>(kSharedBlockBytes);
    used_ = 0;
  }
  uint8_t* data = block_->data() + used_;
  used_ += rounded;
  return {block_, data};
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
