#include "api/errors.h"

#include <nlohmann/json.hpp>

#include "api/json_text.h"

namespace tandem::api {

const WireError& wire_error(ErrorCode code) {
#define TANDEM_ERROR(code, status, type, name, anthropic)             \
  case ErrorCode::code: {                                             \
    static constexpr WireError kError{status, type, name, anthropic}; \
    return kError;                                                    \
  }
  switch (code) {
#include "api/errors.def"
  }
#undef TANDEM_ERROR
  INVARIANT(!"an error code without a line in errors.def");
  __builtin_unreachable();
}

std::string openai_error_body(std::string_view message, std::string_view type,
                              std::string_view code, std::string_view param) {
  OrderedJson error;
  error["message"] = message;
  error["type"] = type;
  error["param"] = param.empty() ? OrderedJson(nullptr) : OrderedJson(param);
  error["code"] = code;
  return to_text(OrderedJson{{"error", std::move(error)}});
}

std::string openai_error_body(const Error& error) {
  const auto& wire = wire_error(error.code());
  const bool model = error.code() == ErrorCode::kNotFound && error.param() == "model";
  return openai_error_body(error.what(), wire.openai_type,
                           model ? "model_not_found" : wire.openai_code, error.param());
}

}  // namespace tandem::api
