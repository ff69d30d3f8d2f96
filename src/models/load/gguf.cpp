#include "models/load/gguf.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "models/load/gguf_reader.h"
#include "models/load/gguf_types.h"
#include "models/load/report.h"

namespace tandem {
namespace {

constexpr uint32_t kVersionMin = 2, kVersionMax = 3;
constexpr size_t kNameBytesMax = 1024;
constexpr uint32_t kDimensionsMax = 4;
constexpr int64_t kAlignmentDefault = 32, kAlignmentMax = 1 << 20;
constexpr uint64_t kKeyBytesMin = 8 + 4 + 1;         // name length, type, a byte
constexpr uint64_t kTensorBytesMin = 8 + 4 + 4 + 8;  // name length, n_dims, type, offset

// A tensor description; the offset counts from the start of the data.
struct Description {
  FileTensor tensor;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

void check_version(GgufReader& in, const FileBytes& file, uint32_t version) {
  if (version >= kVersionMin && version <= kVersionMax) return;
  uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= kVersionMax) {
    fail_load(file.path, "is a big-endian GGUF file, expected a little-endian one");
  }
  in.fail("version is " + std::to_string(version) + ", expected 2 or 3");
}

std::string read_name(GgufReader& in, const std::string& what) {
  std::string_view name = in.string(what);
  if (name.empty()) in.fail(what + " is empty");
  if (name.size() > kNameBytesMax) {
    in.fail(what + " has " + std::to_string(name.size()) + " bytes, at most " +
            std::to_string(kNameBytesMax) + " are possible");
  }
  return std::string(name);
}

std::map<std::string, GgufValue, std::less<>> read_metadata(GgufReader& in, uint64_t count) {
  std::map<std::string, GgufValue, std::less<>> values;
  for (uint64_t i = 0; i < count; i++) {
    std::string key = read_name(in, "name of metadata key " + std::to_string(i));
    GgufValue value = in.value("metadata key " + quote_name(key));
    if (!values.emplace(key, value).second)
      in.fail("metadata key " + quote_name(key) + " is there twice");
  }
  return values;
}

// Dimensions in file order (innermost first), all positive, with a product that
// an int64 holds.
std::vector<int64_t> read_dimensions(GgufReader& in, const std::string& tensor) {
  uint32_t count = in.number<uint32_t>(tensor + ": n_dims");
  if (count < 1 || count > kDimensionsMax) {
    in.fail(tensor + ": n_dims is " + std::to_string(count) + ", expected 1 to " +
            std::to_string(kDimensionsMax));
  }
  std::vector<int64_t> dimensions;
  int64_t product = 1;
  for (uint32_t i = 0; i < count; i++) {
    std::string field = tensor + ": dims[" + std::to_string(i) + "]";
    uint64_t extent = in.number<uint64_t>(field);
    if (extent == 0) in.fail(field + " is 0, expected 1 or more");
    if (extent > INT64_MAX ||
        __builtin_mul_overflow(product, static_cast<int64_t>(extent), &product)) {
      in.fail(field + " is " + std::to_string(extent) +
              ": the tensor would be larger than any file");
    }
    dimensions.push_back(static_cast<int64_t>(extent));
  }
  return dimensions;
}

WeightFormat read_format(GgufReader& in, const std::string& tensor, std::string& type_name) {
  uint32_t number = in.number<uint32_t>(tensor + ": type");
  const char* name = gguf_tensor_type_name(number);
  type_name = name ? name : "unknown";
  if (auto format = gguf_weight_format(number)) return *format;
  in.fail(tensor + ": type is " + type_name + " (" + std::to_string(number) +
          "), which is not supported; supported are " + kGgufSupportedTypes);
}

Description read_description(GgufReader& in, uint64_t index) {
  Description result;
  FileTensor& tensor = result.tensor;
  tensor.name = read_name(in, "name of tensor " + std::to_string(index));
  std::string label = "tensor " + quote_name(tensor.name);
  tensor.shape = read_dimensions(in, label);
  WeightFormat format = read_format(in, label, tensor.type);
  tensor.format = format;
  if (tensor.shape[0] % block_columns(format) != 0) {
    in.fail(label + ": dims[0] is " + std::to_string(tensor.shape[0]) +
            ", expected a multiple of " + std::to_string(block_columns(format)) + " for " +
            tensor.type);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.elements() / block_columns(format), block_bytes(format),
                             &bytes)) {
    in.fail(label + ": dims make it larger than any file");
  }
  result.bytes = static_cast<uint64_t>(bytes);
  result.offset = in.number<uint64_t>(label + ": offset");
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  return result;
}

uint64_t read_alignment(const GgufMetadata& metadata) {
  int64_t alignment = metadata.integer("general.alignment").value_or(kAlignmentDefault);
  if (alignment < 1 || alignment > kAlignmentMax ||
      !std::has_single_bit(static_cast<uint64_t>(alignment))) {
    fail_load(metadata.path(), "metadata key 'general.alignment' is " + std::to_string(alignment) +
                                   ", expected a power of two up to " +
                                   std::to_string(kAlignmentMax));
  }
  return static_cast<uint64_t>(alignment);
}

void place(Description& item, std::span<const std::byte> data, uint64_t alignment,
           const std::string& path) {
  std::string label =
      "tensor " + quote_name(item.tensor.name) + ": offset " + std::to_string(item.offset);
  if (item.offset % alignment != 0) {
    fail_load(path, label + " is not a multiple of the alignment " + std::to_string(alignment));
  }
  if (item.offset > data.size() || item.bytes > data.size() - item.offset) {
    fail_load(path, label + ", " + std::to_string(item.bytes) + " bytes: lies outside the " +
                        std::to_string(data.size()) + " bytes of data; is the file truncated?");
  }
  item.tensor.data = data.subspan(item.offset, item.bytes);
}

void refuse_overlaps(const std::vector<Description>& items, const std::string& path) {
  std::vector<const Description*> order;
  for (const Description& item : items) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); i++) {
    if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset) {
      fail_load(path, "tensor " + quote_name(order[i]->tensor.name) + ": offset " +
                          std::to_string(order[i]->offset) + " lies within tensor " +
                          quote_name(order[i - 1]->tensor.name));
    }
  }
}

std::vector<FileTensor> place_all(std::vector<Description> items, const FileBytes& file,
                                  uint64_t position, uint64_t alignment) {
  uint64_t start = (position + alignment - 1) / alignment * alignment;
  auto data = file.bytes.subspan(std::min<uint64_t>(start, file.bytes.size()));
  for (Description& item : items) place(item, data, alignment, file.path);
  refuse_overlaps(items, file.path);
  std::vector<FileTensor> tensors;
  for (Description& item : items) tensors.push_back(std::move(item.tensor));
  return tensors;
}

}  // namespace

GgufFile parse_gguf(const FileBytes& file) {
  GgufReader in(file);
  if (in.take(4, "magic") != "GGUF") {
    fail_load(file.path, "is not a GGUF file but " + describe_content(file.bytes));
  }
  uint32_t version = in.number<uint32_t>("version");
  check_version(in, file, version);
  uint64_t tensor_count = in.count("tensor count", kTensorBytesMin);
  uint64_t key_count = in.count("metadata key count", kKeyBytesMin);
  GgufMetadata metadata(file.path, read_metadata(in, key_count));
  uint64_t alignment = read_alignment(metadata);
  std::vector<Description> items;
  for (uint64_t i = 0; i < tensor_count; i++) items.push_back(read_description(in, i));
  auto tensors = place_all(std::move(items), file, in.position(), alignment);
  return {file, version, std::move(metadata), std::move(tensors)};
}

}  // namespace tandem
