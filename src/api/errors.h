// How each ErrorCode looks on the wire; the table is errors.def.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::api {

struct WireError {
  int http_status;
  const char* openai_type;
  const char* openai_code;
  const char* anthropic_type;
};

const WireError& wire_error(ErrorCode code);

// {"error":{"message","type","param","code"}}, as OpenAI's API answers. An
// empty param is null.
std::string openai_error_body(const Error& error);
std::string openai_error_body(std::string_view message, std::string_view type,
                              std::string_view code, std::string_view param = {});

}  // namespace tandem::api
