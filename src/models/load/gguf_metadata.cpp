#include <cmath>
#include <cstring>

#include "base/error.h"
#include "models/load/gguf.h"
#include "models/load/gguf_reader.h"
#include "models/load/report.h"

namespace tandem {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Nothing for a type that is no integer, or a u64 beyond int64.
std::optional<int64_t> scalar_integer(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::kU8: return load<uint8_t>(from);
    case GgufType::kI8: return load<int8_t>(from);
    case GgufType::kU16: return load<uint16_t>(from);
    case GgufType::kI16: return load<int16_t>(from);
    case GgufType::kU32: return load<uint32_t>(from);
    case GgufType::kI32: return load<int32_t>(from);
    case GgufType::kI64: return load<int64_t>(from);
    case GgufType::kU64: {
      uint64_t value = load<uint64_t>(from);
      if (value > INT64_MAX) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> scalar_number(GgufType type, const std::byte* from) {
  if (type == GgufType::kF32) return load<float>(from);
  if (type == GgufType::kF64) return load<double>(from);
  if (auto value = scalar_integer(type, from)) return static_cast<double>(*value);
  return std::nullopt;
}

}  // namespace

void GgufMetadata::fail(std::string_view key, const std::string& expected) const {
  const GgufValue& value = values_.find(key)->second;
  std::string got = gguf_type_name(value.type);
  if (value.type == GgufType::kArray) {
    got += std::string(" of ") + gguf_type_name(value.element_type);
  }
  fail_load(path_, "metadata key " + quote_name(key) + " is " + got + " and not " + expected);
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  auto number = scalar_integer(value->type, value->bytes.data());
  if (!number) fail(key, "an integer below 2^63");
  return number;
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  auto number = scalar_number(value->type, value->bytes.data());
  if (!number || !std::isfinite(*number)) fail(key, "a finite number");
  return number;
}

std::optional<bool> GgufMetadata::flag(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufType::kBool) fail(key, "a bool");
  return load<uint8_t>(value->bytes.data()) != 0;
}

std::optional<std::string> GgufMetadata::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufType::kString) fail(key, "a string");
  return std::string(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::vector<std::string> GgufMetadata::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return {};
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString) {
    fail(key, "an array of strings");
  }
  std::vector<std::string> result;
  result.reserve(value->count);
  const std::byte* at = value->bytes.data();
  for (uint64_t i = 0; i < value->count; i++) {
    uint64_t size = load<uint64_t>(at);
    result.emplace_back(reinterpret_cast<const char*>(at + 8), size);
    at += 8 + size;
  }
  return result;
}

std::vector<int64_t> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return {};
  if (value->type != GgufType::kArray) fail(key, "an array of integers");
  uint64_t bytes = gguf_scalar_bytes(value->element_type);
  std::vector<int64_t> result;
  for (uint64_t i = 0; i < value->count; i++) {
    auto number = scalar_integer(value->element_type, value->bytes.data() + i * bytes);
    if (!number) fail(key, "an array of integers below 2^63");
    result.push_back(*number);
  }
  return result;
}

std::vector<float> GgufMetadata::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return {};
  if (value->type != GgufType::kArray) fail(key, "an array of numbers");
  uint64_t bytes = gguf_scalar_bytes(value->element_type);
  std::vector<float> result;
  for (uint64_t i = 0; i < value->count; i++) {
    auto number = scalar_number(value->element_type, value->bytes.data() + i * bytes);
    if (!number) fail(key, "an array of numbers");
    result.push_back(static_cast<float>(*number));
  }
  return result;
}

std::optional<int64_t> GgufMetadata::uniform_integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value || value->type != GgufType::kArray) return integer(key);
  std::vector<int64_t> layers = integers(key);
  if (layers.empty()) fail(key, "an integer, or one a layer");
  for (int64_t layer : layers) {
    if (layer == layers[0]) continue;
    throw Error(ErrorCode::kUnsupported, path_ + ": metadata key " + quote_name(key) +
                                             " differs between layers, which is not supported");
  }
  return layers[0];
}

}  // namespace tandem
