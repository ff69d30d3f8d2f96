// The KV pages of the CPU backend.
//
// A page holds all layers of its group: [layer] of K [kv_heads][k_dim][32] and
// then V [kv_heads][32][v_dim]. K lies key-minor, so that one vector holds the
// same dimension of 16 keys and a score needs no horizontal sum.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/kv_store.h"

namespace tandem::cpu {

// One layer's view of the pages.
struct KvPlanes {
  uint8_t* base = nullptr;
  int64_t page_bytes = 0;
  int64_t layer_at = 0;
  int64_t k_head_bytes = 0;
  int64_t v_at = 0;  // from the layer's begin
  int64_t v_head_bytes = 0;
  KvCodec codec = KvCodec::kF16;

  uint8_t* k(int64_t page, int64_t head) const {
    return base + page * page_bytes + layer_at + head * k_head_bytes;
  }
  uint8_t* v(int64_t page, int64_t head) const {
    return base + page * page_bytes + layer_at + v_at + head * v_head_bytes;
  }
};

// Reserves address space for as many pages as memory could ever hold and
// commits them as it grows, so that growing copies nothing and moves nothing.
class CpuKvStore final : public KvStore {
 public:
  explicit CpuKvStore(const KvSpec& spec);
  ~CpuKvStore() override;
  CpuKvStore(const CpuKvStore&) = delete;
  CpuKvStore& operator=(const CpuKvStore&) = delete;

  const KvSpec& spec() const override { return spec_; }
  int64_t pages() const override { return pages_; }
  void grow(int64_t pages) override;
  void copy_page(int32_t from, int32_t to) override;
  int64_t page_bytes() const override { return page_bytes_; }

  KvPlanes planes(int layer) const;

 private:
  [[noreturn]] void refuse(int64_t pages) const;

  KvSpec spec_;
  int64_t element_bytes_ = 0;
  int64_t layer_bytes_ = 0;
  int64_t page_bytes_ = 0;
  int64_t pages_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  uint8_t* base_ = nullptr;  // its first huge page
  size_t reserved_bytes_ = 0;
};

}  // namespace tandem::cpu
