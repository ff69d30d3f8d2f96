// Prompts of the wire as token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {
class ChatTemplate;
class Tokenizer;
}  // namespace tandem

namespace tandem::api {

// Of a raw prompt: spellings of control tokens become these tokens, and the
// tokenizer adds what it adds (BOS).
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text);

// `messages` and `variables` are JSON text, see api/messages.h and ChatInput.
std::vector<int32_t> encode_chat(const ChatTemplate& chat, const std::string& messages,
                                 const std::string& variables);

// Raw bytes, perhaps of a part of a character.
std::string token_bytes(const Tokenizer& tokenizer, int32_t id);

}  // namespace tandem::api
