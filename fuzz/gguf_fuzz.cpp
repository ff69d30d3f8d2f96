// GGUF files from outside: whatever the bytes, opening one as a checkpoint and reading what an
// engine would read gives values or throws an Error with a message of one printable line.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "models/load/gguf.h"
#include "models/load/gguf_checkpoint.h"

namespace {

constexpr size_t kMessageBytesMax = 1000;

void read_all(const tandem::FileBytes& file) {
  const tandem::GgufFile parsed = tandem::parse_gguf(file);
  auto checkpoint = tandem::make_gguf_checkpoint(file, "input");
  checkpoint->config().dump();
  checkpoint->chat_template();
  checkpoint->gguf_tokenizer();
  for (const auto& tensor : parsed.tensors) {
    if (tensor.shape.size() == 1) checkpoint->take_optional_vector(tensor.name, tensor.shape[0]);
  }
  const std::string base = "model.layers.0.self_attn.q_proj";
  if (checkpoint->has(base + ".weight")) checkpoint->take_matrix(base, 32, 32);
  checkpoint->expect_all_taken();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Copied to where a mapped file would be aligned, and where reads behind its end are seen.
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  for (size_t i = 0; i < size; ++i) (*bytes)[i] = static_cast<std::byte>(data[i]);
  try {
    read_all({.path = "input.gguf", .bytes = *bytes, .owner = bytes});
  } catch (const tandem::Error& error) {
    const std::string_view message = error.what();
    if (message.empty() || message.size() > kMessageBytesMax) std::abort();
    for (char c : message) {
      if (c >= 0 && c < 0x20) std::abort();
    }
  }
  return 0;
}
