// A cursor over a GGUF file that never leaves it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "models/load/gguf.h"

namespace tandem {

// Every read names the field it is for, and throws Error(kLoad) with that name
// when the bytes left do not hold it. Reads are views: nothing is copied.
class GgufReader {
 public:
  explicit GgufReader(const FileBytes& file) : file_(file) {}

  std::string_view take(uint64_t bytes, const std::string& field);
  std::string_view string(const std::string& field);
  // A count of things of at least `bytes_each` bytes that follow.
  uint64_t count(const std::string& field, uint64_t bytes_each);
  // A type number and the value, checked to its end.
  GgufValue value(const std::string& field);

  template <typename T>
  T number(const std::string& field) {
    T value;
    std::memcpy(&value, take(sizeof value, field).data(), sizeof value);
    return value;
  }

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_.bytes.size() - position_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  GgufType type(const std::string& field);
  GgufValue array(const std::string& field, int depth);
  void skip_elements(GgufType type, uint64_t count, const std::string& field, int depth);

  const FileBytes& file_;
  uint64_t position_ = 0;
};

// Bytes of a scalar; 0 for strings and arrays.
uint64_t gguf_scalar_bytes(GgufType type);
const char* gguf_type_name(GgufType type);

}  // namespace tandem
