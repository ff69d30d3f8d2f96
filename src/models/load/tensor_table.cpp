#include "models/load/tensor_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "models/load/report.h"

namespace tandem {
namespace {

constexpr size_t kNamesShown = 8;

[[noreturn]] void fail_type(const std::string& path, const FileTensor& tensor) {
  fail_load(path, "tensor " + quote_name(tensor.name) + ": type " + tensor.type +
                      " cannot be read as floats, expected F32, F16 or BF16");
}

}  // namespace

int64_t FileTensor::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

void TensorTable::add(const std::string& name, FileTensor tensor) {
  int64_t bytes = static_cast<int64_t>(tensor.data.size());
  auto [slot, added] = slots_.try_emplace(name);
  if (!added) {
    fail_load(path_, "tensor " + quote_name(tensor.name) + " is there twice" +
                         (name == tensor.name ? "" : " (both are " + quote_name(name) + ")"));
  }
  slot->second.tensor = std::move(tensor);
  stored_bytes_ += bytes;
}

const FileTensor* TensorTable::find(std::string_view name) const {
  auto slot = slots_.find(name);
  return slot == slots_.end() ? nullptr : &slot->second.tensor;
}

const FileTensor* TensorTable::take(std::string_view name) {
  auto slot = slots_.find(name);
  if (slot == slots_.end()) return nullptr;
  slot->second.taken = true;
  return &slot->second.tensor;
}

void TensorTable::fail_missing(std::string_view name, const std::string& expected) const {
  constexpr size_t kCompared = 20000;
  std::vector<std::string> names;
  for (const auto& [known, slot] : slots_) {
    if (names.size() < kCompared && known.size() <= 200) names.push_back(known);
  }
  std::string hint;
  if (!names.empty()) {
    hint = "; the nearest of " + std::to_string(slots_.size()) + " tensors is " +
           quote_name(nearest_name(std::string(name), names));
  }
  fail_load(path_, "tensor " + quote_name(name) + " is missing, expected " + expected + hint);
}

std::vector<std::string> TensorTable::untaken() const {
  std::vector<std::string> names;
  for (const auto& [name, slot] : slots_) {
    if (!slot.taken) names.push_back(slot.tensor.name);
  }
  return names;
}

StoredMatrix as_matrix(const std::string& path, const FileTensor& tensor, int64_t rows,
                       int64_t cols) {
  if (!tensor.format) fail_type(path, tensor);
  int64_t got_cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  int64_t got_rows = got_cols == 0 ? 0 : tensor.elements() / got_cols;
  if (tensor.shape.size() < 2 || got_rows != rows || got_cols != cols) {
    fail_load(path, "tensor " + quote_name(tensor.name) + ": shape " + shape_text(tensor.shape) +
                        ", expected " + shape_text({rows, cols}));
  }
  StoredMatrix matrix;
  matrix.name = tensor.name;
  matrix.format = *tensor.format;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.data = tensor.data;
  return matrix;
}

std::vector<float> as_floats(const std::string& path, const FileTensor& tensor, int64_t size) {
  if (!tensor.format) fail_type(path, tensor);
  if (tensor.elements() != size) {
    fail_load(path, "tensor " + quote_name(tensor.name) + ": shape " + shape_text(tensor.shape) +
                        ", expected " + shape_text({size}));
  }
  StoredMatrix row;
  row.name = tensor.name;
  row.format = *tensor.format;
  row.rows = 1;
  row.cols = size;
  row.data = tensor.data;
  std::vector<float> values(static_cast<size_t>(size));
  dequantize_row(row, 0, values.data());
  return values;
}

void refuse_unexpected(const std::string& path, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); i++) {
    list += (i ? ", " : "") + quote_name(names[i]);
  }
  if (names.size() > kNamesShown) list += ", ...";
  bool one = names.size() == 1;
  fail_load(path, std::to_string(names.size()) + (one ? " tensor is" : " tensors are") +
                      " not part of this architecture: " + list);
}

}  // namespace tandem
