// Where keys and values (and recurrent state) live, page by page. A store holds
// one group of layers with the same shape; the integers that say who owns which
// page are kept in cache/, never here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem {

enum class KvCodec : uint8_t { kF32, kF16, kBF16, kQ8, kQ4 };

const char* kv_codec_name(KvCodec codec);

// Tokens in one page. Attention partitions keys by page, so this is part of
// what makes results independent of the batch.
inline constexpr int kPageTokens = 32;

struct KvSpec {
  int layers = 0;  // layers of the group, each with its own planes
  int kv_heads = 0;
  int k_dim = 0;  // per head
  int v_dim = 0;
  int window = 0;  // sliding window in tokens, 0 = all
  KvCodec codec = KvCodec::kF16;
};

// Pages of one group. Engine thread only.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual const KvSpec& spec() const = 0;
  // Pages addressable now. grow() raises it, keeping contents; throws
  // Error(kPoolExhausted) when memory cannot be had.
  virtual int64_t pages() const = 0;
  virtual void grow(int64_t pages) = 0;
  // Copies all layers of one page, for copy on write.
  virtual void copy_page(int32_t from, int32_t to) = 0;
  // Bytes one page costs over all layers of the group.
  virtual int64_t page_bytes() const = 0;
};

// Bytes of one page of this spec, before any store exists.
int64_t kv_page_bytes(const KvSpec& spec);

struct StateSpec {
  int layers = 0;
  int64_t conv_floats = 0;       // per layer and slot
  int64_t recurrent_floats = 0;  // per layer and slot
};

// Bytes of one slot over all layers of the group.
int64_t state_slot_bytes(const StateSpec& spec);

// Fixed-size recurrent state in f32, one slot a row. A slot holds anything until
// it is cleared. Engine thread only.
class StateStore {
 public:
  virtual ~StateStore() = default;
  virtual const StateSpec& spec() const = 0;
  // Slots addressable now. grow() raises it, keeping contents; throws
  // Error(kPoolExhausted) when memory cannot be had.
  virtual int64_t slots() const = 0;
  virtual void grow(int64_t slots) = 0;
  virtual void clear_slot(int32_t slot) = 0;
  virtual void copy_slot(int32_t from, int32_t to) = 0;
  // The exact bytes of all layers of one slot, slot_bytes() of them; they mean
  // something only to a store of the same backend and spec.
  virtual void read_slot(int32_t slot, std::span<std::byte> out) const = 0;
  virtual void write_slot(int32_t slot, std::span<const std::byte> in) = 0;
  int64_t slot_bytes() const { return state_slot_bytes(spec()); }
};

// A layer's place: which group, and which layer within it.
struct KvRef {
  int group = 0;
  int layer = 0;
};

}  // namespace tandem
