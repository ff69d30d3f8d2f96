#include "text/chat_template.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "text/bridge.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

// The mark is one of U+FDD0 to U+FDEF: three bytes in UTF-8.
std::string utf8_of(char32_t mark) {
  return {static_cast<char>(0xE0 | mark >> 12), static_cast<char>(0x80 | (mark >> 6 & 0x3F)),
          static_cast<char>(0x80 | (mark & 0x3F))};
}

}  // namespace

std::string RenderedChat::text() const {
  if (mark == 0) return marked_text;
  const std::string bytes = utf8_of(mark);
  std::string out;
  size_t start = 0;
  for (size_t at; (at = marked_text.find(bytes, start)) != std::string::npos;) {
    out.append(marked_text, start, at - start);
    start = at + bytes.size();
  }
  return out.append(marked_text, start);
}

void ChatTemplate::Free::operator()(tb_template* handle) const { tb_template_free(handle); }

ChatTemplate::ChatTemplate(std::string_view source, const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), source_(source) {
  tb_template* handle = nullptr;
  bridge::Buffer error;
  bridge::check(tb_template_compile(bridge::str(source), tokenizer.handle(), &handle, error.out()),
                error, ErrorCode::kInvalid);
  handle_.reset(handle);
  nlohmann::json constants = nlohmann::json::object();
  for (const auto& [name, token] : tokenizer.named_tokens()) constants[name] = token;
  constants_ = constants.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RenderedChat ChatTemplate::render(const ChatInput& input) const {
  const tb_template_input raw = {
      .messages = bridge::str(input.messages),
      .variables = bridge::str(input.variables),
      .constants = bridge::str(constants_),
      .add_generation_prompt = input.add_generation_prompt,
      .now = input.now.value_or(static_cast<int64_t>(std::time(nullptr))),
  };
  uint32_t mark = 0;
  bridge::Buffer out, error;
  bridge::check(tb_template_render(handle_.get(), &raw, out.out(), &mark, error.out()), error,
                ErrorCode::kInvalid);
  return {bridge::text(out), mark};
}

std::vector<int32_t> ChatTemplate::encode(const ChatInput& input) const {
  const RenderedChat chat = render(input);
  return tokenizer_->encode_marked(chat.marked_text, chat.mark);
}

}  // namespace tandem
