// A GGUF file either opens, and all its tensors can be read, or is refused with
// an Error.
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/load/gguf.h"
#include "models/load/gguf_checkpoint.h"
#include "models/load/gguf_names.h"

using namespace tandem;

namespace {

// A block of exactly the input's size, so that reads outside it are seen.
FileBytes copy_of(const uint8_t* data, size_t size) {
  std::shared_ptr<std::byte[]> block(new std::byte[size]);
  if (size > 0) std::memcpy(block.get(), data, size);
  return {"fuzz.gguf", {block.get(), size}, block};
}

void take(Checkpoint& model, const FileTensor& tensor, const std::string& name) {
  int64_t cols = tensor.shape.back(), rows = tensor.elements() / cols;
  if (!name.ends_with(".weight") || tensor.shape.size() < 2) {
    model.take_vector(name, tensor.elements());
    return;
  }
  auto matrix = model.take_matrix(name.substr(0, name.size() - 7), rows, cols);
  std::vector<float> row(static_cast<size_t>(cols));
  dequantize_row(matrix, 0, row.data());
  dequantize_row(matrix, rows - 1, row.data());
}

void open_and_read(const FileBytes& file) {
  auto model = make_gguf_checkpoint(file, "fuzz");
  model->config().dump();
  GgufFile parsed = parse_gguf(file);
  std::string architecture = parsed.metadata.text("general.architecture").value();
  for (const FileTensor& tensor : parsed.tensors) {
    try {
      take(*model, tensor, gguf_to_hf_name(tensor.name, architecture));
    } catch (const Error&) {
      // A shape that does not suit the heads: the others can still be read.
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
