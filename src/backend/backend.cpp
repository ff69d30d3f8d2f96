#include "backend/backend.h"

#include "base/error.h"

namespace tandem {

const char* precision_name(Precision precision) {
  switch (precision) {
    case Precision::kExact: return "exact";
    case Precision::kHigh: return "high";
    case Precision::kFast: return "fast";
  }
  return "?";
}

void Backend::unsupported(const char* op) const {
  throw Error(ErrorCode::kUnsupported,
              std::string("[") + op + "] the " + name() + " backend does not have this op");
}

std::unique_ptr<StateStore> Backend::make_state_store(const StateSpec&) {
  unsupported("make_state_store");
}

Tensor Backend::linear_act(const Tensor& x, const Weight& w, Activation activation) {
  return activate(linear(x, w), activation);
}

Tensor Backend::moe(const Tensor&, const MoeWeights&, const MoeOptions&, const Tensor&) {
  unsupported("moe");
}

Weight Backend::load_experts(std::span<const StoredExpert>) { unsupported("load_experts"); }

Tensor Backend::gated_delta(const Tensor&, const GatedDeltaWeights&, const GatedDeltaOptions&,
                            KvRef, const Step&) {
  unsupported("gated_delta");
}

Tensor Backend::short_conv(const Tensor&, const Weight&, int, KvRef, const Step&) {
  unsupported("short_conv");
}

Weight Backend::load_heads(std::span<const StoredMatrix>) { unsupported("load_heads"); }

Tensor Backend::latent_attention(const Tensor&, const Tensor&, const LatentWeights&,
                                 const LatentOptions&, KvRef, const Step&) {
  unsupported("latent_attention");
}

}  // namespace tandem
