#include "api/fields.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tandem::api {
namespace {

constexpr size_t kShownBytes = 40;

std::string shown(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? std::to_string(static_cast<int64_t>(value))
             : Json(value).dump();
}

}  // namespace

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return value.empty() ? "an empty array" : "an array";
    case Json::value_t::boolean: return value.get<bool>() ? "true" : "false";
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      if (text.empty()) return "an empty string";
      return text.size() <= kShownBytes
                 ? "the string " + value.dump(-1, ' ', false, Json::error_handler_t::replace)
                 : "a string of " + std::to_string(text.size()) + " bytes";
    }
    default: return value.dump();
  }
}

void throw_expected(const std::string& path, const std::string& expected, const Json& got) {
  throw Error(ErrorCode::kInvalid, path + ": expected " + expected + ", got " + describe(got),
              path);
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object_.is_object())
    throw_expected(path_.empty() ? "body" : path_, "a JSON object", object_);
}

std::string Fields::path_of(const std::string& name) const {
  return path_.empty() ? name : path_ + "." + name;
}

const Json* Fields::find(const std::string& name) {
  known_.insert(name);
  auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const Json* Fields::array(const std::string& name) {
  const Json* value = find(name);
  if (value && !value->is_array()) throw_expected(path_of(name), "an array", *value);
  return value;
}

const Json* Fields::object(const std::string& name) {
  const Json* value = find(name);
  if (value && !value->is_object()) throw_expected(path_of(name), "an object", *value);
  return value;
}

std::optional<bool> Fields::boolean(const std::string& name) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_boolean()) throw_expected(path_of(name), "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> Fields::string(const std::string& name) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string()) throw_expected(path_of(name), "a string", *value);
  return value->get<std::string>();
}

std::optional<double> Fields::number(const std::string& name, double min, double max) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_number() || value->get<double>() < min || value->get<double>() > max)
    throw_expected(path_of(name), "a number from " + shown(min) + " to " + shown(max), *value);
  return value->get<double>();
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t min, int64_t max) {
  const Json* value = find(name);
  if (!value) return {};
  // 5.0 is the integer 5 to clients whose language has one number type.
  const bool whole = value->is_number_integer() ||
                     (value->is_number_float() && std::abs(value->get<double>()) < 9e15 &&
                      value->get<double>() == std::floor(value->get<double>()));
  const bool huge =
      value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!whole || huge || value->get<int64_t>() < min || value->get<int64_t>() > max) {
    std::string expected = "an integer";
    if (min != std::numeric_limits<int64_t>::min()) expected += " from " + std::to_string(min);
    if (max != std::numeric_limits<int64_t>::max()) expected += " to " + std::to_string(max);
    throw_expected(path_of(name), expected, *value);
  }
  return value->get<int64_t>();
}

void Fields::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) known_.insert(name);
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!known_.count(name)) names.push_back(path_of(name));
  return names;
}

}  // namespace tandem::api
