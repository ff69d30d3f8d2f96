#include "engine/kv_scheme.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tandem {

namespace {

constexpr const char* kConfigFiles[] = {"kv_config.json", "kv_config"};
constexpr int kAffineGroup = 64;
constexpr int kStartMax = 1 << 24;

[[noreturn]] void refuse_scheme(const std::string& text) {
  throw Error(ErrorCode::kInvalid,
              "unknown KV quantisation \"" + text +
                  "\": it is off, 8, 4, config, turbo or turbo:kKvV (e.g. turbo:k8v3)",
              "kv_quant");
}

int rounded_start(int start) {
  if (start < 0 || start > kStartMax) {
    throw Error(ErrorCode::kInvalid,
                "KV quantisation must start between 0 and " + std::to_string(kStartMax) +
                    " tokens, got " + std::to_string(start),
                "kv_quant_start");
  }
  return (start + kPageTokens - 1) / kPageTokens * kPageTokens;
}

// The largest usual group that divides the group's head dims; check_kv_spec speaks
// up where none does.
int affine_group(const KvSpec& spec) {
  return spec.k_dim % kAffineGroup == 0 && spec.v_dim % kAffineGroup == 0 ? kAffineGroup : 32;
}

[[noreturn]] void refuse_config(const std::string& path, const std::string& problem) {
  throw Error(ErrorCode::kLoad, path + ": " + problem, "kv_quant");
}

std::string config_path(const std::string& folder) {
  for (const char* name : kConfigFiles) {
    const auto path = std::filesystem::path(folder) / name;
    if (std::filesystem::is_regular_file(path)) return path.string();
  }
  throw Error(ErrorCode::kLoad,
              "--kv-quant config needs a " + std::string(kConfigFiles[0]) +
                  " beside the model, and there is none in " + folder,
              "kv_quant");
}

int field(const nlohmann::json& entry, const char* key, const std::string& path) {
  const auto it = entry.find(key);
  if (it == entry.end() || !it->is_number_integer()) {
    refuse_config(path, std::string("each entry needs an integer ") + key);
  }
  return it->get<int>();
}

nlohmann::json read_config(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json config = nlohmann::json::parse(file, nullptr, false);
  if (!config.is_array()) {
    refuse_config(path, "must be a JSON list of {layer_idx, bits, group_size}");
  }
  return config;
}

// Layers are numbered over all groups in the order of the groups' layers.
void apply_config(std::vector<KvSpec>& groups, const std::string& folder) {
  const std::string path = config_path(folder);
  if (groups.size() != 1) {
    refuse_config(path,
                  "a per-layer config needs a model whose layers all have one kind of "
                  "cache; this one has " +
                      std::to_string(groups.size()));
  }
  KvSpec& spec = groups[0];
  spec = with_format(spec, {spec.base});
  for (const auto& entry : read_config(path)) {
    if (!entry.is_object()) refuse_config(path, "each entry must be an object");
    const int layer = field(entry, "layer_idx", path);
    if (layer < 0 || layer >= spec.layers) {
      refuse_config(path, "layer_idx must be between 0 and " + std::to_string(spec.layers - 1) +
                              ", got " + std::to_string(layer));
    }
    spec.formats[layer] = kv_affine(field(entry, "bits", path), field(entry, "group_size", path));
  }
}

}  // namespace

KvQuant parse_kv_quant(const std::string& text) {
  using Kind = KvQuant::Kind;
  if (text == "off") return {};
  if (text == "8") return {Kind::kAffine, 8, 8};
  if (text == "4") return {Kind::kAffine, 4, 4};
  if (text == "config") return {Kind::kConfig};
  if (text == "turbo") return {Kind::kTurbo, 8, 3};
  int k_bits = 0, v_bits = 0, used = 0;
  if (std::sscanf(text.c_str(), "turbo:k%1dv%1d%n", &k_bits, &v_bits, &used) != 2 ||
      used != static_cast<int>(text.size())) {
    refuse_scheme(text);
  }
  return {Kind::kTurbo, k_bits, v_bits};
}

std::string kv_quant_name(const KvQuant& quant) {
  std::string name;
  switch (quant.kind) {
    case KvQuant::Kind::kOff: return "off";
    case KvQuant::Kind::kAffine:
      name = std::string("kv").append(std::to_string(quant.k_bits));
      break;
    case KvQuant::Kind::kConfig: name = "config"; break;
    case KvQuant::Kind::kTurbo: name = kv_format_name(kv_turbo(quant.k_bits, quant.v_bits)); break;
  }
  const int start = rounded_start(quant.start);
  return start > 0 ? name + "@" + std::to_string(start) : name;
}

std::vector<KvSpec> kv_groups_of(const ModelInfo& info, KvCodec base, const KvQuant& quant,
                                 const std::string& folder) {
  std::vector<KvSpec> groups = info.kv_groups;
  for (KvSpec& spec : groups) {
    spec.base = base;
    spec.quant_start = rounded_start(quant.start);
    if (quant.kind == KvQuant::Kind::kAffine) {
      spec = with_format(spec, kv_affine(quant.k_bits, affine_group(spec)));
    } else if (quant.kind == KvQuant::Kind::kTurbo && spec.window == 0) {
      spec = with_format(spec, kv_turbo(quant.k_bits, quant.v_bits));
    }
  }
  if (quant.kind == KvQuant::Kind::kConfig) apply_config(groups, folder);
  for (const KvSpec& spec : groups) check_kv_spec(spec);
  return groups;
}

}  // namespace tandem
