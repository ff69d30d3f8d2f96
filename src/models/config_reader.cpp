#include "models/config_reader.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tandem {

using nlohmann::json;

ConfigReader::ConfigReader(const json& config, std::string path)
    : config_(config), path_(std::move(path)) {
  if (!config_.is_object()) {
    throw Error(ErrorCode::kLoad, path_ + ": the configuration must be a JSON object");
  }
}

void ConfigReader::fail(const char* key, const std::string& expected) const {
  const auto found = config_.find(key);
  const std::string got = found == config_.end() ? "nothing" : found->dump().substr(0, 80);
  throw Error(ErrorCode::kLoad,
              path_ + ": config field \"" + key + "\" must be " + expected + ", got " + got);
}

bool ConfigReader::has(const char* key) const {
  const auto found = config_.find(key);
  return found != config_.end() && !found->is_null();
}

int64_t ConfigReader::integer(const char* key) const {
  if (!has(key) || !config_[key].is_number_integer()) fail(key, "an integer");
  return config_[key].get<int64_t>();
}

int64_t ConfigReader::integer(const char* key, int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

double ConfigReader::number(const char* key, double fallback) const {
  if (!has(key)) return fallback;
  if (!config_[key].is_number()) fail(key, "a number");
  return config_[key].get<double>();
}

bool ConfigReader::flag(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!config_[key].is_boolean()) fail(key, "true or false");
  return config_[key].get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  if (!config_[key].is_string()) fail(key, "a string");
  return config_[key].get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const char* key) const {
  std::vector<std::string> out;
  if (!has(key)) return out;
  if (!config_[key].is_array()) fail(key, "a list of strings");
  for (const json& item : config_[key]) {
    if (!item.is_string()) fail(key, "a list of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int32_t> ConfigReader::ids(const char* key) const {
  std::vector<int32_t> out;
  if (!has(key)) return out;
  const json& value = config_[key];
  for (const json& item : value.is_array() ? value : json::array({value})) {
    if (!item.is_number_integer()) fail(key, "a token id or a list of them");
    out.push_back(item.get<int32_t>());
  }
  return out;
}

int ConfigReader::count(const char* key, int64_t limit) const {
  const int64_t value = integer(key);
  if (value < 1 || value > limit) fail(key, "between 1 and " + std::to_string(limit));
  return static_cast<int>(value);
}

Activation ConfigReader::activation() const {
  const char* key = has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const std::string name = text(key, "silu");
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name == "relu2") return Activation::kRelu2;
  fail(key, "silu, gelu, gelu_pytorch_tanh or relu2");
}

ConfigReader ConfigReader::object(const char* key) const {
  if (!has(key) || !config_[key].is_object()) fail(key, "an object");
  return {config_[key], path_ + ": " + key};
}

RopeConfig ConfigReader::rope(int dims, const char* layer_type) const {
  RopeConfig rope;
  rope.dims = dims;
  rope.theta = number("rope_theta", rope.theta);
  const char* key = has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!has(key)) return rope;
  const ConfigReader all = object(key);
  const ConfigReader scaling = all.has(layer_type) ? all.object(layer_type) : all;
  rope.theta = scaling.number("rope_theta", rope.theta);
  rope.type = scaling.text("rope_type", scaling.text("type", "default"));
  rope.factor = scaling.number("factor", 1);
  rope.low_freq_factor = scaling.number("low_freq_factor", 1);
  rope.high_freq_factor = scaling.number("high_freq_factor", 4);
  rope.original_max_positions =
      scaling.number("original_max_position_embeddings",
                     rope.type == "yarn" ? number("max_position_embeddings", 8192) : 8192);
  rope.beta_fast = scaling.number("beta_fast", rope.beta_fast);
  rope.beta_slow = scaling.number("beta_slow", rope.beta_slow);
  rope.attention_factor = scaling.number("attention_factor", 0);
  rope.mscale = scaling.number("mscale", 0);
  rope.mscale_all_dim = scaling.number("mscale_all_dim", 0);
  rope.truncate = scaling.flag("truncate", true);
  for (auto [name, value] :
       {std::pair{"factor", rope.factor}, std::pair{"low_freq_factor", rope.low_freq_factor},
        std::pair{"high_freq_factor", rope.high_freq_factor}}) {
    if (!(value > 0)) scaling.fail(name, "above 0");
  }
  return rope;
}

int ConfigReader::rotated(int dims, double fallback) const {
  double part = number("partial_rotary_factor", fallback);
  if (has("rope_parameters")) {
    part = object("rope_parameters").number("partial_rotary_factor", part);
  }
  const int rotated = static_cast<int>(dims * part);
  if (rotated < 2 || rotated > dims || rotated % 2 != 0) {
    fail("partial_rotary_factor",
         "such that an even number of the head's " + std::to_string(dims) + " elements is rotated");
  }
  return rotated;
}

}  // namespace tandem
