// JSON as the wire writes it: keys in the order we give, and dumping that never throws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tandem::api {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// One line; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const OrderedJson& value);

}  // namespace tandem::api
