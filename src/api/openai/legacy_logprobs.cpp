#include "api/openai/legacy_logprobs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/openai/wire_parts.h"

namespace tandem::api::openai {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::string shown(int32_t id, const std::string& bytes) {
  if (bytes.empty()) return "token_id:" + std::to_string(id);
  if (is_whole_utf8(bytes)) return bytes;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (unsigned char byte : bytes) {
    text += "\\x";
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

}  // namespace

void LegacyLogprobs::add_prompt(const std::vector<TokenInfo>& tokens,
                                const TokenBytes& token_bytes) {
  for (const auto& token : tokens) {
    // A BOS that the tokenizer added stands for no text of the prompt.
    const bool added = first_ && !echo_.starts_with(token_bytes(token.id));
    append(token, token_bytes, !added);
    first_ = false;
  }
}

void LegacyLogprobs::add(const std::vector<TokenInfo>& tokens, const TokenBytes& token_bytes) {
  for (const auto& token : tokens) append(token, token_bytes, true);
}

void LegacyLogprobs::append(const TokenInfo& token, const TokenBytes& token_bytes, bool in_text) {
  const auto bytes = token_bytes(token.id);
  Entry entry{.token = shown(token.id, bytes)};
  if (token.has_logprob) {
    entry.logprob = token.logprob;
    for (const auto& other : token.top)
      entry.top.emplace_back(shown(other.id, token_bytes(other.id)), other.logprob);
    // The chosen token is listed even when it is not among the most likely.
    entry.top.emplace_back(entry.token, token.logprob);
  }
  const bool continues = !bytes.empty() && continues_character(bytes.front());
  entry.text_offset = std::max<int64_t>(characters_ - (continues ? 1 : 0), 0);
  entries_.push_back(std::move(entry));
  if (in_text)
    characters_ += std::count_if(bytes.begin(), bytes.end(),
                                 [](char byte) { return !continues_character(byte); });
}

OrderedJson LegacyLogprobs::take() {
  auto tokens = OrderedJson::array(), token_logprobs = OrderedJson::array();
  auto top_logprobs = OrderedJson::array(), text_offset = OrderedJson::array();
  for (auto& entry : entries_) {
    tokens.push_back(std::move(entry.token));
    token_logprobs.push_back(entry.logprob ? OrderedJson(*entry.logprob) : OrderedJson(nullptr));
    OrderedJson top = entry.logprob ? OrderedJson::object() : OrderedJson(nullptr);
    for (const auto& [text, logprob] : entry.top) top.emplace(text, logprob);
    top_logprobs.push_back(std::move(top));
    text_offset.push_back(entry.text_offset);
  }
  entries_.clear();
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(token_logprobs)},
          {"top_logprobs", std::move(top_logprobs)},
          {"text_offset", std::move(text_offset)}};
}

}  // namespace tandem::api::openai
