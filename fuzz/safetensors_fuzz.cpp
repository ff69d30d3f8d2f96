// Safetensors files and their index from outside: whatever the bytes, parsing gives tensors that
// lie inside the file or throws an Error.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "models/load/safetensors.h"

namespace {

template <typename Parse>
void run(Parse parse) {
  try {
    parse();
  } catch (const tandem::Error& error) {
    if (std::string_view(error.what()).empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto copy = std::make_shared<std::vector<std::byte>>(size);
  for (size_t i = 0; i < size; ++i) (*copy)[i] = static_cast<std::byte>(data[i]);
  const tandem::FileBytes file{.path = "input", .bytes = *copy, .owner = copy};
  run([&] {
    for (const auto& tensor : tandem::parse_safetensors(file)) {
      const auto* begin = file.bytes.data();
      const auto* start = tensor.data.data();
      if (!tensor.data.empty() &&
          (start < begin || start + tensor.data.size() > begin + file.bytes.size())) {
        std::abort();
      }
    }
  });
  run([&] {
    tandem::parse_safetensors_index("index",
                                    std::string_view(reinterpret_cast<const char*>(data), size));
  });
  return 0;
}
