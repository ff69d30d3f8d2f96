// The logprobs object of /v1/completions, built token by token.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/json_text.h"
#include "api/reply_writer.h"

namespace tandem::api::openai {

class LegacyLogprobs {
 public:
  // `echo`: the text that the prompt's tokens stand for, empty without echo.
  explicit LegacyLogprobs(std::string_view echo) : echo_(echo) {}

  void add_prompt(const std::vector<TokenInfo>& tokens, const TokenBytes& token_bytes);
  void add(const std::vector<TokenInfo>& tokens, const TokenBytes& token_bytes);

  // What was added since the last call; text offsets run on.
  OrderedJson take();

 private:
  struct Entry {
    std::string token;
    std::optional<float> logprob;
    std::vector<std::pair<std::string, float>> top;  // most likely first
    int64_t text_offset = 0;
  };

  void append(const TokenInfo& token, const TokenBytes& token_bytes, bool in_text);

  std::string_view echo_;
  bool first_ = true;
  int64_t characters_ = 0;  // begun so far
  std::vector<Entry> entries_;
};

}  // namespace tandem::api::openai
