#include "api/json_text.h"

#include <nlohmann/json.hpp>

namespace tandem::api {

std::string to_text(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace tandem::api
