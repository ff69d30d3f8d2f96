#include "backend/kv_store.h"

#include <algorithm>

#include "backend/turbo.h"
#include "base/error.h"

namespace tandem {

const char* kv_codec_name(KvCodec codec) {
  switch (codec) {
    case KvCodec::kF32: return "f32";
    case KvCodec::kF16: return "f16";
    case KvCodec::kBF16: return "bf16";
    case KvCodec::kAffine: return "affine";
    case KvCodec::kTurbo: return "turbo";
  }
  return "?";
}

namespace {

PlaneFormat dense_plane(KvCodec codec) { return {codec, codec == KvCodec::kF32 ? 32 : 16, 0}; }

}  // namespace

PlaneFormat k_plane_format(const KvFormat& format) {
  if (!format.quantised()) return dense_plane(format.codec);
  return {KvCodec::kAffine, format.k_bits, format.group};
}

PlaneFormat v_plane_format(const KvFormat& format) {
  if (!format.quantised()) return dense_plane(format.codec);
  return {format.codec, format.v_bits, format.group};
}

KvFormat kv_affine(int bits, int group) { return {KvCodec::kAffine, bits, bits, group}; }
KvFormat kv_turbo(int k_bits, int v_bits) { return {KvCodec::kTurbo, k_bits, v_bits, 32}; }

std::string kv_format_name(const KvFormat& format) {
  std::string name = format.codec == KvCodec::kAffine ? "q" : kv_codec_name(format.codec);
  if (format.codec == KvCodec::kAffine) {
    name.append(std::to_string(format.k_bits)).append("g").append(std::to_string(format.group));
  } else if (format.codec == KvCodec::kTurbo) {
    name.append("-k").append(std::to_string(format.k_bits));
    name.append("v").append(std::to_string(format.v_bits));
  }
  return name;
}

bool KvSpec::quantised() const {
  return std::any_of(formats.begin(), formats.end(),
                     [](const KvFormat& format) { return format.quantised(); });
}

KvSpec with_format(KvSpec spec, const KvFormat& format) {
  spec.formats.assign(static_cast<size_t>(spec.layers), format);
  return spec;
}

namespace {

bool one_of(int value, std::initializer_list<int> allowed) {
  return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalid, "[kv] " + message, "kv_quant");
}

void check_affine(const KvFormat& f, const KvSpec& spec) {
  if (!one_of(f.k_bits, {4, 8}) || f.v_bits != f.k_bits) {
    refuse("keys and values are quantised to 8 or 4 bits, got " + std::to_string(f.k_bits));
  }
  if (!one_of(f.group, {32, 64, 128})) {
    refuse("the group size must be 32, 64 or 128, got " + std::to_string(f.group));
  }
  for (const int dim : {spec.k_dim, spec.v_dim}) {
    if (dim > kTurboDimMax)
      refuse("no head dim above 512 is quantised, got " + std::to_string(dim));
    if (dim % f.group == 0) continue;
    refuse("a group size of " + std::to_string(f.group) + " does not divide the head dim " +
           std::to_string(dim) + " of this model");
  }
}

void check_turbo(const KvFormat& f, const KvSpec& spec) {
  if (!one_of(f.k_bits, {2, 4, 5, 8}) || !one_of(f.v_bits, {2, 3, 4, 5, 8}) || f.group != 32) {
    refuse("turbo keeps keys in 2, 4, 5 or 8 bits and values in 2, 3, 4, 5 or 8, got k" +
           std::to_string(f.k_bits) + "v" + std::to_string(f.v_bits));
  }
  for (const int dim : {spec.k_dim, spec.v_dim}) {
    if (one_of(dim, {64, 128, 256, 512})) continue;
    refuse("turbo needs a head dim of 64, 128, 256 or 512, and this model has " +
           std::to_string(dim));
  }
}

}  // namespace

void check_kv_spec(const KvSpec& spec) {
  INVARIANT(spec.layers > 0 && spec.kv_heads > 0 && spec.k_dim > 0 && spec.v_dim > 0);
  INVARIANT(spec.base != KvCodec::kAffine && spec.base != KvCodec::kTurbo);
  INVARIANT(spec.formats.empty() || std::ssize(spec.formats) == spec.layers);
  if (spec.quant_start < 0 || spec.quant_start % kPageTokens != 0) {
    refuse("quantising must start at a multiple of " + std::to_string(kPageTokens) +
           " tokens, got " + std::to_string(spec.quant_start));
  }
  for (const KvFormat& format : spec.formats) {
    if (format.codec == KvCodec::kAffine) check_affine(format, spec);
    if (format.codec == KvCodec::kTurbo) check_turbo(format, spec);
  }
}

int64_t state_slot_bytes(const StateSpec& spec) {
  return spec.layers * (spec.conv_floats + spec.recurrent_floats) *
         static_cast<int64_t>(sizeof(float));
}

int64_t kv_page_bytes(const KvSpec& spec, KvSection section) {
  int64_t bytes = 0;
  for (int layer = 0; layer < spec.layers; ++layer) {
    const KvFormat format = section == KvSection::kBase ? KvFormat{spec.base} : spec.format(layer);
    bytes += k_plane_format(format).token_bytes(spec.k_dim) +
             v_plane_format(format).token_bytes(spec.v_dim);
  }
  return bytes * kPageTokens * spec.kv_heads;
}

int64_t KvStore::page_bytes(KvSection section) const { return kv_page_bytes(spec(), section); }

}  // namespace tandem
