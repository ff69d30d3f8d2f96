#include "backend/kv_store.h"

#include "base/error.h"

namespace tandem {

const char* kv_codec_name(KvCodec codec) {
  switch (codec) {
    case KvCodec::kF32: return "f32";
    case KvCodec::kF16: return "f16";
    case KvCodec::kBF16: return "bf16";
    case KvCodec::kQ8: return "q8";
    case KvCodec::kQ4: return "q4";
  }
  return "?";
}

namespace {

// Bytes of one head's vector of one token. Quantised codecs keep an f16 scale
// and an f16 bias for every 32 elements.
int64_t vector_bytes(KvCodec codec, int64_t dim) {
  const int64_t groups = (dim + 31) / 32;
  switch (codec) {
    case KvCodec::kF32: return dim * 4;
    case KvCodec::kF16:
    case KvCodec::kBF16: return dim * 2;
    case KvCodec::kQ8: return dim + groups * 4;
    case KvCodec::kQ4: return dim / 2 + groups * 4;
  }
  INVARIANT(false);
  return 0;
}

}  // namespace

int64_t kv_page_bytes(const KvSpec& spec) {
  return int64_t{kPageTokens} * spec.layers * spec.kv_heads *
         (vector_bytes(spec.codec, spec.k_dim) + vector_bytes(spec.codec, spec.v_dim));
}

int64_t state_slot_bytes(const StateSpec& spec) {
  return spec.layers * (spec.conv_floats + spec.recurrent_floats) *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace tandem
