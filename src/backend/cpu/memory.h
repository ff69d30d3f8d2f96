// Memory the backend owns: large aligned blocks, and the arena of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::cpu {

inline constexpr size_t kLineBytes = 64;

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Zeroed memory of its own mapping, on huge pages where the system has them.
// Throws Error(kMemory) when it cannot be had.
class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes);
  ~Block();
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

// Bump allocator for what one step makes. Addresses stay valid until reset().
class Arena {
 public:
  // Uninitialised, aligned to a cache line.
  template <class T>
  T* take(int64_t count) {
    return reinterpret_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T)));
  }

  // Forgets everything. Several blocks become one of their joint size, so that
  // a steady load soon takes no memory from the system.
  void reset();

  size_t capacity_bytes() const;

 private:
  uint8_t* take_bytes(size_t bytes);

  std::vector<Block> blocks_;
  size_t used_ = 0;  // of the last block
};

}  // namespace tandem::cpu
