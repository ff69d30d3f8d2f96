// The KV pages of the CPU backend.
//
// A page holds all layers of its group: [layer] of K [kv_heads] planes and then V
// [kv_heads] planes, each in its layer's format.
//   K plane: [k_dim][32 keys]. Key-minor, so that one vector holds the same
//     dimension of 16 keys and a score needs no horizontal sum. Quantised: a key's
//     codes are one little-endian bit stream of k_dim * bits bits along its dims,
//     whose bytes lie [byte][32 keys]; then f16 scales and biases, each
//     [k_dim / group][32 keys].
//   V plane: [32 keys][v_dim]. Quantised: [32 keys] bit streams of v_dim * bits
//     bits; then f16 scales and (affine) biases, each [32 keys][v_dim / group].
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/kv_store.h"

namespace tandem::cpu {

// One layer's view of the pages of one section.
struct KvPlanes {
  uint8_t* base = nullptr;
  int64_t page_bytes = 0;
  int64_t layer_at = 0;
  int64_t k_head_bytes = 0;
  int64_t v_at = 0;  // from the layer's begin
  int64_t v_head_bytes = 0;
  PlaneFormat k_format;
  PlaneFormat v_format;

  uint8_t* k(int64_t page, int64_t head) const {
    return base + page * page_bytes + layer_at + head * k_head_bytes;
  }
  uint8_t* v(int64_t page, int64_t head) const {
    return base + page * page_bytes + layer_at + v_at + head * v_head_bytes;
  }
};

// One layer's view of both sections: positions below base_tokens are in `base`.
struct KvLayer {
  KvPlanes main;
  KvPlanes base;
  int32_t base_tokens = 0;

  const KvPlanes& at(int64_t position) const { return position < base_tokens ? base : main; }
};

// Address space for as many bytes as memory could ever hold, committed as it
// grows, so that growing copies nothing and moves nothing.
class PageMemory {
 public:
  explicit PageMemory(int64_t page_bytes);
  ~PageMemory();
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  int64_t pages() const { return pages_; }
  int64_t page_bytes() const { return page_bytes_; }
  void grow(int64_t pages);
  uint8_t* base() const { return base_; }
  uint8_t* page(int32_t id) const;  // within pages()

 private:
  [[noreturn]] void refuse(int64_t pages) const;

  int64_t page_bytes_;
  int64_t pages_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  uint8_t* base_ = nullptr;  // its first huge page
  size_t reserved_bytes_ = 0;
};

class CpuKvStore final : public KvStore {
 public:
  explicit CpuKvStore(const KvSpec& spec);

  const KvSpec& spec() const override { return spec_; }
  int64_t pages(KvSection section) const override;
  void grow(KvSection section, int64_t pages) override;
  void copy_page(KvSection section, int32_t from, int32_t to) override;
  void read_page(KvSection section, int32_t page, std::span<std::byte> out) const override;
  void write_page(KvSection section, int32_t page, std::span<const std::byte> in) override;

  KvPlanes planes(KvSection section, int layer) const;
  KvLayer layer(int layer) const;

 private:
  KvFormat format(KvSection section, int layer) const;
  PageMemory& memory(KvSection section) const;

  KvSpec spec_;
  std::unique_ptr<PageMemory> main_;
  std::unique_ptr<PageMemory> base_;  // null where the section is empty for good
};

}  // namespace tandem::cpu
