// JSON as the wire writes it: keys in the order we give, and dumping that never throws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tandem::api {

// Objects keep the order of their keys: what clients send is shown to models.
using Json = nlohmann::ordered_json;
using OrderedJson = Json;

// One line; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const OrderedJson& value);

}  // namespace tandem::api
