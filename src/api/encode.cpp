#include "api/encode.h"

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tandem::api {

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.parse_special = true, .add_special = true});
}

std::vector<int32_t> encode_chat(const ChatTemplate& chat, const std::string& messages,
                                 const std::string& variables) {
  return chat.encode({.messages = messages, .variables = variables});
}

std::string token_bytes(const Tokenizer& tokenizer, int32_t id) {
  return std::string(tokenizer.token_bytes(id));
}

}  // namespace tandem::api
