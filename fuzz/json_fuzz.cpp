// Whatever text parse_json accepts can be copied, dumped and parsed again to
// the same value; whatever it refuses, it refuses with a short ASCII line.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"

using namespace tandem;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_message(std::string_view message) {
  require(message.size() < 500);
  for (char c : message) require(c >= 0x20 && c < 0x7f);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  JsonLimits limits{.bytes_max = 1 << 16, .values_max = 10000, .unique_keys = true};
  try {
    nlohmann::json value = parse_json(text, limits, "the text");
    nlohmann::json copy = value;
    require(parse_json(copy.dump(), limits, "the dump").dump() == copy.dump());
  } catch (const Error& error) {
    check_message(error.what());
  }
  return 0;
}
