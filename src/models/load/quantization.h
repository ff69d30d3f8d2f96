// How MLX says in config.json which modules are quantised, and how.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// w = scale * code + bias for groups of columns.
struct AffineParameters {
  int bits = 0;        // 2, 3, 4, 5, 6 or 8
  int group_size = 0;  // 32, 64 or 128
};

// The "quantization" (or "quantization_config") object: one setting for all
// modules, and others for single ones.
class Quantization {
 public:
  // Throws Error(kUnsupported) for a scheme that is not MLX's affine one (gptq,
  // awq, fp8, mxfp4, ...), and Error(kLoad) for a malformed object; both name
  // the key. No object at all means that nothing is quantised.
  Quantization(const nlohmann::json& config, const std::string& path);

  // Empty for a module that is not quantised. Keys may carry other prefixes
  // ("language_model.", "model.") than the module's name.
  std::optional<AffineParameters> of(std::string_view module) const;

 private:
  std::optional<AffineParameters> all_;
  // By name without prefixes; empty = not quantised.
  std::map<std::string, std::optional<AffineParameters>, std::less<>> modules_;
};

// The name without any of the prefixes "model." and "language_model.".
std::string_view without_prefixes(std::string_view name);

}  // namespace tandem
