#include "text/detokenizer.h"

#include <doctest/doctest.h>

#include "text/vocabs.h"

using namespace tandem;
using Ids = std::vector<int32_t>;

namespace {

Ids bytes(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, const Ids& ids) {
  Detokenizer detokenizer(tokenizer);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(detokenizer.push(id));
  out.push_back(detokenizer.flush());
  return out;
}

// What a strict decoder makes of the whole: U+FFFD for each maximal invalid part.
std::string joined(const std::vector<std::string>& parts) {
  std::string whole;
  for (const auto& part : parts) whole += part;
  return whole;
}

}  // namespace

TEST_CASE("an incomplete character waits for its last byte") {
  const auto tokenizer = Tokenizer::from_gguf(test::byte_level_vocab());
  const auto out = pieces(tokenizer, bytes("a🙂b"));
  CHECK(out == std::vector<std::string>{"a", "", "", "", "🙂", "b", ""});
}

TEST_CASE("invalid bytes become U+FFFD once nothing can complete them") {
  const auto tokenizer = Tokenizer::from_gguf(test::byte_level_vocab());
  using Parts = std::vector<std::string>;
  CHECK(pieces(tokenizer, bytes("\xE2\x82")) == Parts{"", "", "\uFFFD"});
  CHECK(pieces(tokenizer, bytes("\xE2\x82"
                                "a")) == Parts{"", "", "\uFFFDa", ""});
  CHECK(pieces(tokenizer, bytes("\x80\xC0")) == Parts{"\uFFFD", "\uFFFD", ""});
  CHECK(joined(pieces(tokenizer, bytes("\xED\xA0\x80"))) == "\uFFFD\uFFFD\uFFFD");
  CHECK(joined(pieces(tokenizer, bytes("\xF0\x9F\x99\xF0\x9F\x99\x82"))) == "\uFFFD🙂");
  CHECK(joined(pieces(tokenizer, bytes("\xF4\x90\x80\x80"))) == "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST_CASE("the pieces of any byte sequence join to the decoded whole") {
  const auto tokenizer = Tokenizer::from_gguf(test::byte_level_vocab());
  constexpr unsigned char kBytes[] = {'a', 0x80, 0xBF, 0xC2, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0x90};
  constexpr size_t kCount = std::size(kBytes);
  for (size_t code = 0; code < kCount * kCount * kCount * kCount; ++code) {
    Ids ids;
    for (size_t rest = code, i = 0; i < 4; ++i, rest /= kCount) {
      ids.push_back(kBytes[rest % kCount]);
    }
    REQUIRE(joined(pieces(tokenizer, ids)) == tokenizer.decode(ids));
  }
}

TEST_CASE("control tokens give no text") {
  const auto tokenizer = Tokenizer::from_gguf(test::byte_level_vocab());
  CHECK(joined(pieces(tokenizer, {259, 257, 258, 260})) == "the the");
}

TEST_CASE("the space before the first SentencePiece word is dropped, and no other") {
  const auto tokenizer = Tokenizer::from_gguf(test::sentencepiece_vocab());
  CHECK(pieces(tokenizer, {1, 259, 259}) == std::vector<std::string>{"", "the", " the", ""});
  CHECK(pieces(tokenizer, {263, 259}) == std::vector<std::string>{"", " the", ""});
}

TEST_CASE("byte tokens of a SentencePiece vocabulary join to a character") {
  const auto tokenizer = Tokenizer::from_gguf(test::sentencepiece_vocab());
  CHECK(pieces(tokenizer, {259, 3 + 0xC3, 3 + 0xA9}) ==
        std::vector<std::string>{"the", "", "é", ""});
}
