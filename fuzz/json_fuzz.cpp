// JSON from outside: whatever the bytes, parse_json returns a value that can be copied, written and
// read again, or throws an Error whose message is short and printable.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace {

constexpr size_t kMessageBytesMax = 400;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  tandem::JsonLimits limits{.bytes_max = 1 << 16, .depth_max = 32, .values_max = 4096};
  limits.unique_keys = (data[0] & 1) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const nlohmann::json value = tandem::parse_json(text, limits, "input");
    const nlohmann::json copy = value;
    const std::string written = copy.dump();
    require(nlohmann::json::parse(written).dump() == written);
  } catch (const tandem::Error& error) {
    const std::string_view message = error.what();
    require(message.starts_with("input") && message.size() <= kMessageBytesMax);
    for (char c : message) require(c >= 0x20 && c < 0x7f);
  }
  return 0;
}
