#include "api/openai/wire_parts.h"

#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/sse.h"

namespace tandem::api::openai {

OrderedJson usage_json(const UsageSum& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

OrderedJson reply_json(const CallHead& head, const char* object, OrderedJson choices) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"choices", std::move(choices)}};
}

OrderedJson finish_json(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    default: return nullptr;
  }
}

OrderedJson ids_json(const std::vector<TokenInfo>& tokens) {
  OrderedJson ids = OrderedJson::array();
  for (const auto& token : tokens) ids.push_back(token.id);
  return ids;
}

void append_stream_error(const Error& error, std::string& out) {
  append_sse(openai_error_body(error), out);
}

bool is_whole_utf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    if (length == 0 || i + length > bytes.size()) return false;
    for (size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(bytes[i + k]) & 0xC0) != 0x80) return false;
    i += length;
  }
  return true;
}

}  // namespace tandem::api::openai
