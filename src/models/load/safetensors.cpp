#include "models/load/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "models/load/report.h"

namespace tandem {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are read as they lie");

constexpr uint64_t kHeaderBytesMax = 100'000'000;
constexpr size_t kDimensionsMax = 8;

struct ElementType {
  const char* name;
  int64_t bits;
  std::optional<WeightFormat> format;
};

constexpr ElementType kTypes[] = {
    {"F32", 32, WeightFormat::kF32},
    {"F16", 16, WeightFormat::kF16},
    {"BF16", 16, WeightFormat::kBF16},
    {"BOOL", 8, {}},
    {"U8", 8, {}},
    {"I8", 8, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"I32", 32, {}},
    {"U32", 32, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
    {"F64", 64, {}},
    {"C64", 64, {}},
};

JsonLimits header_limits() {
  return {.bytes_max = kHeaderBytesMax,
          .depth_max = 8,
          .values_max = 10'000'000,
          .unique_keys = true,
          .code = ErrorCode::kLoad};
}

// One entry of the header, with errors that name it.
class Entry {
 public:
  Entry(const std::string& path, const std::string& name, const json& fields)
      : path_(path), name_(name), fields_(fields) {
    if (!fields.is_object()) fail("expected an object of dtype, shape and data_offsets");
  }

  FileTensor read(std::span<const std::byte> data) const {
    const ElementType& type = read_type();
    FileTensor tensor{
        .name = name_, .type = type.name, .format = type.format, .shape = read_shape(), .data = {}};
    uint64_t bytes = expected_bytes(type, tensor.shape);
    tensor.data = read_range(data, bytes, tensor);
    return tensor;
  }

  [[noreturn]] void fail(const std::string& what) const {
    fail_load(path_, "tensor " + quote_name(name_) + ": " + what);
  }

 private:
  const json& field(const char* key) const {
    auto found = fields_.find(key);
    if (found == fields_.end()) fail(std::string(key) + " is missing");
    return *found;
  }

  const ElementType& read_type() const {
    const json& value = field("dtype");
    if (!value.is_string()) fail("dtype is not a string");
    const auto& text = value.get_ref<const std::string&>();
    for (const ElementType& type : kTypes) {
      if (text == type.name) return type;
    }
    fail("dtype " + quote_name(text) + " is not a known type, expected F32, F16, BF16 or U32");
  }

  std::vector<int64_t> read_shape() const {
    const json& value = field("shape");
    if (!value.is_array()) fail("shape is not an array");
    if (value.size() > kDimensionsMax) {
      fail("shape has " + std::to_string(value.size()) + " dimensions, at most " +
           std::to_string(kDimensionsMax) + " are possible");
    }
    std::vector<int64_t> shape;
    for (const json& extent : value) {
      if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT64_MAX) {
        fail("shape[" + std::to_string(shape.size()) + "] is not a whole number from 0");
      }
      shape.push_back(extent.get<int64_t>());
    }
    return shape;
  }

  // Zero extents are legal and make an empty tensor; the others must still
  // multiply without overflow, so that no later product can.
  uint64_t expected_bytes(const ElementType& type, const std::vector<int64_t>& shape) const {
    int64_t bits = type.bits;
    bool empty = false;
    for (int64_t extent : shape) {
      if (extent == 0) empty = true;
      if (__builtin_mul_overflow(bits, std::max<int64_t>(extent, 1), &bits)) {
        fail("shape " + shape_text(shape) + " is larger than any file");
      }
    }
    if (empty) return 0;
    if (bits % 8 != 0) fail("shape " + shape_text(shape) + " does not fill whole bytes");
    return static_cast<uint64_t>(bits) / 8;
  }

  std::span<const std::byte> read_range(std::span<const std::byte> data, uint64_t bytes,
                                        const FileTensor& tensor) const {
    const json& value = field("data_offsets");
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
        !value[1].is_number_unsigned()) {
      fail("data_offsets is not a pair of whole numbers from 0");
    }
    uint64_t begin = value[0].get<uint64_t>(), end = value[1].get<uint64_t>();
    std::string range = "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]";
    if (begin > end) fail(range + " run backwards");
    if (end > data.size()) {
      fail(range + " lie outside the file, which has " + std::to_string(data.size()) +
           " bytes of data; is it truncated?");
    }
    if (end - begin != bytes) {
      fail(range + " hold " + std::to_string(end - begin) + " bytes, expected " +
           std::to_string(bytes) + " for " + tensor.type + " " + shape_text(tensor.shape));
    }
    return data.subspan(begin, bytes);
  }

  const std::string& path_;
  const std::string& name_;
  const json& fields_;
};

void refuse_overlaps(const std::string& path, const std::vector<FileTensor>& tensors) {
  std::vector<const FileTensor*> order;
  for (const FileTensor& tensor : tensors) {
    if (!tensor.data.empty()) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](auto* a, auto* b) { return a->data.data() < b->data.data(); });
  for (size_t i = 1; i < order.size(); i++) {
    if (order[i - 1]->data.data() + order[i - 1]->data.size() > order[i]->data.data()) {
      fail_load(path, "tensor " + quote_name(order[i]->name) + ": data_offsets overlap those of " +
                          quote_name(order[i - 1]->name));
    }
  }
}

std::string_view header_text(const FileBytes& file) {
  if (file.bytes.size() < 8) {
    fail_load(file.path, "has " + std::to_string(file.bytes.size()) +
                             " bytes, too few for a safetensors file; is it truncated?");
  }
  uint64_t size = 0;
  std::memcpy(&size, file.bytes.data(), sizeof size);
  if (size > kHeaderBytesMax) {
    fail_load(file.path, "is not a safetensors file but " + describe_content(file.bytes) +
                             " (header length " + std::to_string(size) + ", the limit is " +
                             std::to_string(kHeaderBytesMax) + ")");
  }
  if (size > file.bytes.size() - 8) {
    fail_load(file.path, "header length " + std::to_string(size) + " is more than the " +
                             std::to_string(file.bytes.size() - 8) +
                             " bytes left; is the file truncated?");
  }
  return {reinterpret_cast<const char*>(file.bytes.data()) + 8, size};
}

bool plain_file_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name[0] != '.' &&
         name.ends_with(".safetensors");
}

}  // namespace

std::vector<FileTensor> parse_safetensors(const FileBytes& file) {
  std::string_view text = header_text(file);
  json header = parse_json(text, header_limits(), file.path + ": safetensors header");
  if (!header.is_object()) fail_load(file.path, "the safetensors header is not a JSON object");
  auto data = file.bytes.subspan(8 + text.size());
  std::vector<FileTensor> tensors;
  for (const auto& [name, fields] : header.items()) {
    if (name == "__metadata__") continue;
    tensors.push_back(Entry(file.path, name, fields).read(data));
  }
  refuse_overlaps(file.path, tensors);
  return tensors;
}

std::map<std::string, std::string> parse_safetensors_index(const std::string& path,
                                                           std::string_view text) {
  JsonLimits limits = header_limits();
  json index = parse_json(text, limits, path);
  auto found = index.is_object() ? index.find("weight_map") : index.end();
  if (found == index.end() || !found->is_object()) fail_load(path, "weight_map is missing");
  std::map<std::string, std::string> files;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string() || !plain_file_name(value.get_ref<const std::string&>())) {
      fail_load(path, "weight_map of tensor " + quote_name(name) +
                          " is not the name of a .safetensors file in this folder");
    }
    files.emplace(name, value.get<std::string>());
  }
  if (files.empty()) fail_load(path, "weight_map is empty");
  return files;
}

}  // namespace tandem
