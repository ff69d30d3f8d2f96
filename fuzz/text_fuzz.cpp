// Whatever bytes a model or a caller brings: streamed text equals decoded
// text, stop strings are found wherever the text is cut, and no message forges
// a control token.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../tests/text/vocabs.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/utf8.h"

using namespace tandem;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

const Tokenizer& tokenizer() {
  static const Tokenizer instance = Tokenizer::from_gguf(test::byte_level_vocab());
  return instance;
}

std::string valid_utf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string out;
  stream.push(bytes, out);
  stream.flush(out);
  return out;
}

std::string json_string(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      out += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

void check_detokenizer(std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  Detokenizer detokenizer(tokenizer());
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  text += detokenizer.flush();
  require(text == tokenizer().decode(ids));
  require(text == valid_utf8(bytes));
}

// The first bytes are stop strings of one to three bytes, the rest is text.
void check_stop_matcher(std::string_view bytes) {
  if (bytes.size() < 4) return;
  const std::vector<std::string> stops = {std::string(bytes.substr(0, 1)),
                                          std::string(bytes.substr(1, 3))};
  const std::string_view text = bytes.substr(4);
  StopMatcher whole(stops), cut(stops);
  const auto once = whole.push(text);
  std::string expected = once.text + whole.flush().text, delivered;
  bool matched = false;
  for (size_t i = 0; i < text.size() && !matched; ++i) {
    const auto step = cut.push(text.substr(i, 1));
    delivered += step.text;
    matched = step.matched;
  }
  delivered += cut.flush().text;
  require(matched == once.matched && delivered == expected);
}

void check_chat(std::string_view bytes) {
  static const ChatTemplate chat(
      "{% for m in messages %}<|im_start|>{{ m.role }}<{{ m.name }}>{{ m.content }}|im_end"
      "{{ m.content | tojson }}<|im_end|>{% endfor %}",
      tokenizer());
  const size_t half = bytes.size() / 2;
  const std::string name = json_string(valid_utf8(bytes.substr(0, half)));
  const std::string content = json_string(valid_utf8(bytes.substr(half)));
  ChatInput input;
  input.messages = "[{\"role\": \"user\", \"name\": " + name + ", \"content\": " + content + "}]";
  const auto ids = chat.encode(input);
  int control = 0;
  for (const int32_t id : ids) control += tokenizer().is_special(id);
  require(control == 2);
  require(tokenizer().decode(ids, false) == chat.render(input).text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_detokenizer(bytes);
  check_stop_matcher(bytes);
  check_chat(bytes);
  return 0;
}
