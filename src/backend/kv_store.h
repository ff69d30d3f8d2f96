// Where keys and values (and recurrent state) live, page by page. A store holds
// one group of layers with the same shape; the integers that say who owns which
// page are kept in cache/, never here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// kAffine: integer codes with an f16 scale and bias for every group of elements
// along a head's vector. kTurbo: affine keys; values turned by random signs and a
// Walsh-Hadamard transform, then Lloyd-Max levels times each group's RMS. Both
// quantise each token by itself when it is written.
enum class KvCodec : uint8_t { kF32, kF16, kBF16, kAffine, kTurbo };

const char* kv_codec_name(KvCodec codec);

// How one layer keeps its keys and values. Bits and group of quantised codecs only.
struct KvFormat {
  KvCodec codec = KvCodec::kF16;
  int k_bits = 0;  // kAffine: 4 or 8, as v_bits; kTurbo: 2, 4, 5 or 8
  int v_bits = 0;  // kTurbo: 2, 3, 4, 5 or 8
  int group = 0;   // elements: kAffine 32, 64 or 128; kTurbo 32

  bool quantised() const { return codec == KvCodec::kAffine || codec == KvCodec::kTurbo; }
  friend bool operator==(const KvFormat&, const KvFormat&) = default;
};

// How a plane of keys, or of values, is coded. The keys of kTurbo are kAffine.
struct PlaneFormat {
  KvCodec codec = KvCodec::kF16;
  int bits = 16;  // of one element or code
  int group = 0;  // elements that share a scale; 0 = no scales

  int64_t code_bytes(int64_t dim) const { return dim * bits / 8; }  // of one token
  int64_t groups(int64_t dim) const { return group > 0 ? dim / group : 0; }
  // An f16 scale for each group, and an f16 bias if affine.
  int64_t scale_bytes(int64_t dim) const {
    return groups(dim) * (codec == KvCodec::kAffine ? 4 : 2);
  }
  int64_t token_bytes(int64_t dim) const { return code_bytes(dim) + scale_bytes(dim); }
};
PlaneFormat k_plane_format(const KvFormat& format);
PlaneFormat v_plane_format(const KvFormat& format);

KvFormat kv_affine(int bits, int group);
KvFormat kv_turbo(int k_bits, int v_bits);

// "f16", "q8g64", "turbo-k8v3": one name for one layout of bytes.
std::string kv_format_name(const KvFormat& format);

// Tokens in one page. Attention partitions keys by page, so this is part of
// what makes results independent of the batch.
inline constexpr int kPageTokens = 32;

// A store has two sections, each with page ids of its own from 0 on. Which one a
// page of a row belongs to follows from its position alone: the i-th entry of a
// block table is an id in section(i * kPageTokens). A pool keeps one free list and
// one set of reference counts for each section, and never moves a page from one to
// the other. kBase: positions below quant_start, every layer in the base codec.
// kMain: all others, each layer in its own format. Without a quantised layer or
// with quant_start 0 every position is in kMain and kBase stays empty.
enum class KvSection : uint8_t { kMain, kBase };
inline constexpr KvSection kKvSections[] = {KvSection::kMain, KvSection::kBase};

struct KvSpec {
  int layers = 0;  // layers of the group, each with its own planes
  int kv_heads = 0;
  int k_dim = 0;  // per head
  int v_dim = 0;
  int window = 0;                   // sliding window in tokens, 0 = all
  KvCodec base = KvCodec::kF16;     // f32, f16 or bf16
  std::vector<KvFormat> formats{};  // of each layer; empty = all in the base codec
  int quant_start = 0;              // a position, multiple of kPageTokens

  KvFormat format(int layer) const {
    return formats.empty() ? KvFormat{base} : formats[static_cast<size_t>(layer)];
  }
  bool quantised() const;
  bool has_base_section() const { return quant_start > 0 && quantised(); }
  KvSection section(int64_t position) const {
    return position < quant_start && quantised() ? KvSection::kBase : KvSection::kMain;
  }
};

// The spec with every layer in one format.
KvSpec with_format(KvSpec spec, const KvFormat& format);

// Throws Error(kInvalid) naming what a layer's format does not allow: bits, group,
// head dim or quant_start.
void check_kv_spec(const KvSpec& spec);

// Pages of one group. Engine thread only.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual const KvSpec& spec() const = 0;
  KvSection section(int64_t position) const { return spec().section(position); }
  // Pages addressable now. grow() raises it, keeping contents; throws
  // Error(kPoolExhausted) when memory cannot be had.
  virtual int64_t pages(KvSection section) const = 0;
  virtual void grow(KvSection section, int64_t pages) = 0;
  // Copies all layers of one page, for copy on write.
  virtual void copy_page(KvSection section, int32_t from, int32_t to) = 0;
  // The exact bytes of all layers of one page, page_bytes(section) of them; they
  // mean something only to a store of the same backend and spec.
  virtual void read_page(KvSection section, int32_t page, std::span<std::byte> out) const = 0;
  virtual void write_page(KvSection section, int32_t page, std::span<const std::byte> in) = 0;
  // Bytes one page costs over all layers of the group.
  int64_t page_bytes(KvSection section) const;
};

// Bytes of one page of this spec, before any store exists.
int64_t kv_page_bytes(const KvSpec& spec, KvSection section);

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
