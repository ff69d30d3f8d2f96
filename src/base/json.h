// Parsing JSON that comes from outside, with bounds.
//
// nlohmann's parser is iterative, but destroying, copying or dumping a value
// recurses: 100,000 nested "[" would overflow the stack later. A scan before
// the parse bounds depth and size, so whatever is returned is safe to handle.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem {

struct JsonLimits {
  size_t bytes_max = size_t{64} << 20;
  int depth_max = 128;                  // nested arrays and objects
  size_t values_max = size_t{4} << 20;  // arrays, objects and elements, roughly
  bool unique_keys = false;             // refuse an object that names a key twice
  ErrorCode code = ErrorCode::kInvalid;
};

// Throws Error(limits.code) that opens with `what` ("config.json", "the request
// body") and says which limit was passed, or where the text stops being JSON.
// The message is printable ASCII and short whatever the text holds.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits, std::string_view what);

// Same, with the keys of objects in the order of the text; of equal keys the
// last one counts. Does not look at unique_keys.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLimits& limits,
                                          std::string_view what);

}  // namespace tandem
