// The JSON files of a model directory, whatever they hold: config.json,
// tokenizer_config.json and the index of shards.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "models/load/safetensors.h"
#include "models/load/safetensors_checkpoint.h"

using namespace tandem;

namespace {

template <typename Action>
void tolerate(Action action) {
  try {
    action();
  } catch (const Error&) {
  }
}

void open_with(const std::string& config, const std::string& tokenizer_config) {
  SafetensorsFiles files;
  files.path = files.name = "fuzz";
  files.config = config;
  files.tokenizer_config = tokenizer_config;
  auto model = make_safetensors_checkpoint(std::move(files));
  model->chat_template();
  model->expect_all_taken();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  tolerate([&] { open_with(text, ""); });
  tolerate([&] { open_with("{}", text); });
  tolerate([&] { parse_safetensors_index("fuzz.json", text); });
  return 0;
}
