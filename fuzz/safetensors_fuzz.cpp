// A safetensors file either opens, and all its tensors can be read, or is
// refused with an Error.
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "models/load/safetensors.h"
#include "models/load/safetensors_checkpoint.h"

using namespace tandem;

namespace {

FileBytes copy_of(const uint8_t* data, size_t size) {
  std::shared_ptr<std::byte[]> block(new std::byte[size]);
  if (size > 0) std::memcpy(block.get(), data, size);
  return {"fuzz.safetensors", {block.get(), size}, block};
}

SafetensorsFiles files_with(const FileBytes& shard) {
  SafetensorsFiles files;
  files.path = files.name = "fuzz";
  files.config = R"({"quantization": {"bits": 4, "group_size": 32, "a": {"bits": 3}}})";
  files.shards.push_back(shard);
  return files;
}

// Columns of a dense tensor, or those that its packed codes stand for.
int64_t columns_of(const FileTensor& tensor) {
  int64_t stored = tensor.shape.back();
  if (tensor.format) return stored;
  return stored * 32 / (tensor.name == "a.weight" ? 3 : 4);
}

void take(Checkpoint& model, const FileTensor& tensor) {
  if (!tensor.name.ends_with(".weight") || tensor.shape.size() < 2) {
    model.take_vector(tensor.name, tensor.elements());
    return;
  }
  int64_t cols = columns_of(tensor), stored = tensor.shape.back();
  int64_t rows = stored == 0 ? 0 : tensor.elements() / stored;
  auto matrix = model.take_matrix(tensor.name.substr(0, tensor.name.size() - 7), rows, cols);
  std::vector<float> row(static_cast<size_t>(cols));
  if (rows == 0) return;
  dequantize_row(matrix, 0, row.data());
  dequantize_row(matrix, rows - 1, row.data());
}

void open_and_read(const FileBytes& shard) {
  auto model = make_safetensors_checkpoint(files_with(shard));
  for (const FileTensor& tensor : parse_safetensors(shard)) {
    try {
      take(*model, tensor);
    } catch (const Error&) {
      // A type or shape that does not suit: the others can still be read.
    }
  }
  model->expect_all_taken();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    open_and_read(copy_of(data, size));
  } catch (const Error&) {
  }
  return 0;
}
