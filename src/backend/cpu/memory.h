// Memory the backend owns: large aligned blocks, and the arena of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::cpu {

inline constexpr size_t kLineBytes = 64;

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Zeroed memory of its own mapping, on huge pages where it is large and the system
// has them: weights are streamed, and a walk of the page tables for every 4 KiB
// costs more than reading them. Throws Error(kMemory) when it cannot be had.
class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes);
  ~Block();
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_bytes_, other.mapping_bytes_);
    return *this;
  }

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  void* mapping_ = nullptr;  // data_ is its first huge page
  size_t mapping_bytes_ = 0;
};

// Memory that many weights share, so that small ones lie on huge pages too. It
// lives as long as a weight in it does.
class SharedBlocks {
 public:
  struct Piece {
    std::shared_ptr<Block> block;
    uint8_t* data = nullptr;
  };
  // Zeroed, aligned to a cache line.
  Piece take(size_t bytes);

 private:
  std::shared_ptr<Block> block_;
  size_t used_ = 0;
};

// Memory for what one step makes. Bump allocation; what is given back within the
// step is used again for requests of the same size, so that a model's layers
// share the memory of one. Addresses stay valid until reset().
class Arena {
 public:
  // Uninitialised, aligned to a cache line.
  template <class T>
  T* take(int64_t count) {
    return reinterpret_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T)));
  }

  // Returns memory of take<T>(count), taken since the last reset.
  template <class T>
  void give_back(const T* memory, int64_t count) {
    if (!memory) return;
    free_.push_back({static_cast<size_t>(count) * sizeof(T), const_cast<T*>(memory)});
  }

  // Forgets everything. Several blocks become one of their joint size, so that
  // a steady load soon takes no memory from the system.
  void reset();

  // Grows by one with each reset.
  uint64_t round() const { return round_; }
  size_t capacity_bytes() const;

 private:
  struct Piece {
    size_t bytes;
    void* memory;
  };

  void* take_bytes(size_t bytes);

  std::vector<Block> blocks_;
  std::vector<Piece> free_;
  size_t used_ = 0;  // of the last block
  uint64_t round_ = 0;
};

}  // namespace tandem::cpu
