// The tensors of a checkpoint by the names that families use, and which of
// them have been taken.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/stored.h"

namespace tandem {

// One tensor of a file. Parsers have checked that `data` has exactly the bytes
// that type and shape ask for.
struct FileTensor {
  std::string name;                    // as in the file
  std::string type;                    // as the format calls it: "BF16", "Q4_1", "U32"
  std::optional<WeightFormat> format;  // empty: cannot be read as floats (integers, fp8)
  std::vector<int64_t> shape;          // outermost first
  std::span<const std::byte> data;

  int64_t elements() const;
};

class TensorTable {
 public:
  explicit TensorTable(std::string path) : path_(std::move(path)) {}

  // Throws Error(kLoad) if the name is there already.
  void add(const std::string& name, FileTensor tensor);

  // Null if there is none. find leaves the tensor untaken.
  const FileTensor* find(std::string_view name) const;
  const FileTensor* take(std::string_view name);

  // Throws Error(kLoad): no such tensor, with names like it.
  [[noreturn]] void fail_missing(std::string_view name, const std::string& expected) const;

  // Names that nobody took, in order.
  std::vector<std::string> untaken() const;

  int64_t stored_bytes() const { return stored_bytes_; }
  const std::string& path() const { return path_; }

 private:
  struct Slot {
    FileTensor tensor;
    bool taken = false;
  };

  std::string path_;
  std::map<std::string, Slot, std::less<>> slots_;
  int64_t stored_bytes_ = 0;
};

// The tensor as a matrix [rows, cols]; leading dimensions count as rows (stacked
// experts, convolutions). Throws Error(kLoad) naming the tensor, got and
// expected.
StoredMatrix as_matrix(const std::string& path, const FileTensor& tensor, int64_t rows,
                       int64_t cols);

// All elements of a tensor as floats, in stored order. Throws Error(kLoad) if it
// has not `size` elements or a type that is not floating point.
std::vector<float> as_floats(const std::string& path, const FileTensor& tensor, int64_t size);

// Throws Error(kLoad) naming up to eight of the tensors and their number, unless
// `names` is empty.
void refuse_unexpected(const std::string& path, const std::vector<std::string>& names);

}  // namespace tandem
