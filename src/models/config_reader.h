// Reads fields of config.json with errors that name file, key and what was expected.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "nn/rope.h"

namespace tandem {

// A view of one configuration object. A key that is absent or null takes the
// fallback; a key without fallback is required. Throws Error(kLoad).
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& config, std::string path);

  bool has(const char* key) const;  // present and not null
  int64_t integer(const char* key) const;
  int64_t integer(const char* key, int64_t fallback) const;
  double number(const char* key, double fallback) const;
  bool flag(const char* key, bool fallback) const;
  std::string text(const char* key, const std::string& fallback) const;
  std::vector<std::string> texts(const char* key) const;  // empty when absent
  // One id or a list of ids; empty when absent.
  std::vector<int32_t> ids(const char* key) const;

  // A count of something: an integer in [1, limit].
  int count(const char* key, int64_t limit) const;

  // hidden_act or hidden_activation.
  Activation activation() const;

  // An object within this one.
  ConfigReader object(const char* key) const;

  // rope_theta with rope_scaling, or rope_parameters, for `dims` rotated dimensions.
  // layer_type: whose of rope_parameters that differ by the layers' type.
  RopeConfig rope(int dims, const char* layer_type = "full_attention") const;

  // partial_rotary_factor, at either place: the part of `dims` that is rotated.
  int rotated(int dims, double fallback = 1) const;

  [[noreturn]] void fail(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json& config_;
  std::string path_;
};

}  // namespace tandem
