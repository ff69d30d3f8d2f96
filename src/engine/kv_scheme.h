// How keys and values are kept: what --kv-quant asks for, and what that makes of a
// model's layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"

namespace tandem {

// off: the base codec. affine: all layers in 8 or 4 bits. config: per layer, from
// the model's own file. turbo: TurboQuant in all layers without a window.
struct KvQuant {
  enum class Kind : uint8_t { kOff, kAffine, kConfig, kTurbo };
  Kind kind = Kind::kOff;
  int k_bits = 0;
  int v_bits = 0;
  int start = 0;  // positions below it keep the base codec; rounded up to a page
};

// "off", "8", "4", "config", "turbo" (k8v3) or "turbo:kKvV". Throws Error(kInvalid)
// naming what there is.
KvQuant parse_kv_quant(const std::string& text);

// "off", "kv8", "config", "turbo-k8v3", with "@512" where it starts later.
std::string kv_quant_name(const KvQuant& quant);

// The model's page groups with base codec and formats set. `folder` holds the
// model's kv_config.json: a list of {layer_idx, bits, group_size}, of which layers
// that are not named stay in the base codec. Throws Error(kInvalid), and
// Error(kLoad) for a missing or bad file.
std::vector<KvSpec> kv_groups_of(const ModelInfo& info, KvCodec base, const KvQuant& quant,
                                 const std::string& folder);

}  // namespace tandem
