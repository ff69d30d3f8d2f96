// The GGUF format: typed metadata, tensor descriptions, then aligned data.
// Versions 2 and 3, little-endian.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/load/mapped_file.h"
#include "models/load/tensor_table.h"

namespace tandem {

// Numbers are the file's.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// A metadata value as a checked view into the file: no copies, so no length in
// the file costs memory.
struct GgufValue {
  GgufType type = GgufType::kU8;
  std::span<const std::byte> bytes;       // a scalar, a string's text, an array's elements
  GgufType element_type = GgufType::kU8;  // arrays only
  uint64_t count = 0;                     // arrays only
};

// Metadata by key. Typed reads give nothing for an absent key and throw
// Error(kLoad) naming the key when its value has another type or range.
class GgufMetadata {
 public:
  GgufMetadata(std::string path, std::map<std::string, GgufValue, std::less<>> values)
      : path_(std::move(path)), values_(std::move(values)) {}

  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  std::optional<int64_t> integer(std::string_view key) const;  // any integer type
  std::optional<double> number(std::string_view key) const;    // any integer or float type
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  // Empty when absent.
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;

  // An integer, or an array of integers (one a layer) that are all the same.
  // Throws Error(kUnsupported) if they differ.
  std::optional<int64_t> uniform_integer(std::string_view key) const;

  const std::string& path() const { return path_; }

 private:
  const GgufValue* find(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, const std::string& expected) const;

  std::string path_;
  std::map<std::string, GgufValue, std::less<>> values_;
};

struct GgufFile {
  FileBytes file;  // what the rest points into
  uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<FileTensor> tensors;  // shapes outermost first
};

// Every count and length is checked against the bytes left before anything is
// allocated. Throws Error(kLoad) naming the tensor or key and the field, also
// for a tensor type that is not supported.
GgufFile parse_gguf(const FileBytes& file);

}  // namespace tandem
