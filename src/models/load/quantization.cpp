#include "models/load/quantization.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/load/report.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int64_t kBits[] = {2, 3, 4, 5, 6, 8};
constexpr int64_t kGroups[] = {32, 64, 128};

// One settings object, with errors that name where it is.
class Settings {
 public:
  Settings(const json& object, std::string path, std::string where)
      : object_(object), path_(std::move(path)), where_(std::move(where)) {}

  // A key that is absent takes the fallback's value.
  AffineParameters read(const std::optional<AffineParameters>& fallback) const {
    refuse_other_modes();
    AffineParameters result;
    result.bits = one_of("bits", kBits, "2, 3, 4, 5, 6 or 8", fallback ? fallback->bits : 0);
    result.group_size =
        one_of("group_size", kGroups, "32, 64 or 128", fallback ? fallback->group_size : 0);
    return result;
  }

 private:
  void refuse_other_modes() const {
    auto mode = object_.find("mode");
    if (mode == object_.end() || mode->is_null() || *mode == "affine") return;
    std::string got =
        mode->is_string() ? quote_name(mode->get_ref<const std::string&>()) : "no text";
    throw Error(ErrorCode::kUnsupported, path_ + ": " + where_ + ".mode is " + got +
                                             ", which is not supported; supported is 'affine'");
  }

  template <size_t N>
  int one_of(const char* key, const int64_t (&allowed)[N], const char* expected,
             int fallback) const {
    auto value = object_.find(key);
    if (value == object_.end() && fallback > 0) return fallback;
    std::string place = where_ + "." + key;
    if (value == object_.end()) fail_load(path_, place + " is missing");
    if (!value->is_number_integer() ||
        std::find(allowed, allowed + N, value->get<int64_t>()) == allowed + N) {
      std::string got = value->is_number() ? value->dump() : value->type_name();
      fail_load(path_, place + " is " + got + ", expected " + expected);
    }
    return value->get<int>();
  }

  const json& object_;
  std::string path_, where_;
};

const json* find_settings(const json& config, std::string& key) {
  for (const char* name : {"quantization", "quantization_config"}) {
    auto found = config.find(name);
    if (found == config.end() || found->is_null()) continue;
    key = name;
    return &*found;
  }
  return nullptr;
}

void refuse_other_methods(const json& settings, const std::string& path, const std::string& key) {
  auto method = settings.find("quant_method");
  if (method == settings.end() || method->is_null()) return;
  std::string got =
      method->is_string() ? quote_name(method->get_ref<const std::string&>()) : "no text";
  throw Error(ErrorCode::kUnsupported,
              path + ": " + key + ".quant_method is " + got +
                  ", which is not supported; supported are MLX's affine quantisation, "
                  "f32, f16 and bf16");
}

}  // namespace

std::string_view without_prefixes(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (std::string_view prefix : {"model.", "language_model."}) {
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      again = true;
    }
  }
  return name;
}

Quantization::Quantization(const json& config, const std::string& path) {
  std::string key;
  const json* settings = find_settings(config, key);
  if (!settings) return;
  if (!settings->is_object()) fail_load(path, key + " is not an object");
  refuse_other_methods(*settings, path, key);
  all_ = Settings(*settings, path, key).read({});
  for (const auto& [name, value] : settings->items()) {
    std::string module(without_prefixes(name));
    if (value.is_object()) {
      modules_[module] = Settings(value, path, key + "[" + quote_name(name) + "]").read(all_);
    } else if (value.is_boolean()) {
      modules_[module] = value.get<bool>() ? all_ : std::nullopt;
    }
  }
}

std::optional<AffineParameters> Quantization::of(std::string_view module) const {
  auto own = modules_.find(without_prefixes(module));
  return own == modules_.end() ? all_ : own->second;
}

}  // namespace tandem
