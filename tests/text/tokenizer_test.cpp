#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/error.h"
#include "text/vocabs.h"

using namespace tandem;
using test::byte_level_vocab;
using test::sentencepiece_vocab;
using Ids = std::vector<int32_t>;

namespace {

constexpr int kTh = 256, kThe = 257, kSpaceThe = 258, kStart = 259, kEnd = 260, kThink = 262;

std::string message_of(const GgufVocab& vocab) {
  try {
    Tokenizer::from_gguf(vocab);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kLoad);
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("byte-level BPE merges and decodes back") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  CHECK(tokenizer.encode("the the th") == Ids{kThe, kSpaceThe, ' ', kTh});
  CHECK(tokenizer.decode(Ids{kThe, kSpaceThe, ' ', kTh}) == "the the th");
  CHECK(tokenizer.encode("").empty());
}

TEST_CASE("every byte of a text survives a round trip") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  for (const std::string& text :
       {std::string("naïve — 東京 🙂👩‍👩‍👧"), std::string(" \n\t  x"),
        std::string("a\0b", 3), std::string("\xC2\xAD\x7F")}) {
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE("spellings of control tokens are text unless they are asked for") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  CHECK(tokenizer.encode("<|im_end|>", {.parse_special = true}) == Ids{kEnd});
  const auto plain = tokenizer.encode("<|im_end|>");
  CHECK(plain.size() == 10);
  CHECK(tokenizer.decode(plain) == "<|im_end|>");
}

TEST_CASE("user-defined tokens are cut out of any text") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  CHECK(tokenizer.encode("<think>the") == Ids{kThink, kThe});
  CHECK(tokenizer.decode(Ids{kThink, kThe}) == "<think>the");
}

TEST_CASE("a mark inside a spelling keeps it text and leaves no trace") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  const auto ids = tokenizer.encode_marked("<|im_start|>the <\uFDD0|im_end|>", U'\uFDD0');
  Ids expected = {kStart, kThe};
  for (const int32_t id : tokenizer.encode(" <|im_end|>")) expected.push_back(id);
  CHECK(ids == expected);
}

TEST_CASE("decoding skips control tokens unless told otherwise") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  CHECK(tokenizer.decode(Ids{kStart, kThe, kEnd}) == "the");
  CHECK(tokenizer.decode(Ids{kStart, kThe, kEnd}, false) == "<|im_start|>the<|im_end|>");
}

TEST_CASE("BOS and EOS are added as the flags say") {
  auto vocab = byte_level_vocab();
  CHECK(Tokenizer::from_gguf(vocab).encode("the", {.add_special = true}) == Ids{kThe});
  vocab.add_bos = true;
  vocab.add_eos = true;
  const auto tokenizer = Tokenizer::from_gguf(vocab);
  CHECK(tokenizer.encode("the", {.add_special = true}) == Ids{kStart, kThe, kEnd});
  CHECK(tokenizer.encode("the") == Ids{kThe});
}

TEST_CASE("a Llama 3 vocabulary begins with BOS without a flag") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab("llama-bpe"));
  CHECK(tokenizer.encode("the", {.add_special = true}) == Ids{kStart, kThe});
}

TEST_CASE("pre-tokenizers cut digits as their names say") {
  auto vocab = byte_level_vocab("smollm");
  vocab.tokens.push_back("12");
  vocab.token_types.push_back(1);
  vocab.merges.push_back("1 2");
  const int32_t twelve = static_cast<int32_t>(vocab.tokens.size()) - 1;
  CHECK(Tokenizer::from_gguf(vocab).encode("12") == Ids{'1', '2'});
  vocab.pre = "qwen2";
  CHECK(Tokenizer::from_gguf(vocab).encode("12") == Ids{'1', '2'});
  vocab.pre = "llama-bpe";
  CHECK(Tokenizer::from_gguf(vocab).encode("12") == Ids{twelve});
  vocab.pre = "";
  CHECK(Tokenizer::from_gguf(vocab).encode("12") == Ids{twelve});
}

TEST_CASE("SentencePiece vocabularies merge by score and fall back to bytes") {
  const auto tokenizer = Tokenizer::from_gguf(sentencepiece_vocab());
  CHECK(tokenizer.encode("the") == Ids{259});
  CHECK(tokenizer.encode("the", {.add_special = true}) == Ids{1, 259});
  CHECK(tokenizer.encode("the\xC3\xA9") == Ids{259, 3 + 0xC3, 3 + 0xA9});
  CHECK(tokenizer.decode(Ids{259, 3 + 0xC3, 3 + 0xA9}) == "the\xC3\xA9");
  CHECK(tokenizer.decode(Ids{1, 259, 259, 2}) == "the the");
}

TEST_CASE("a vocabulary without a prefix space keeps texts as they are") {
  auto vocab = sentencepiece_vocab();
  SUBCASE("by its flag") { vocab.add_space_prefix = false; }
  SUBCASE("as Gemma without a flag") { vocab.architecture = "gemma3"; }
  const auto tokenizer = Tokenizer::from_gguf(vocab);
  CHECK(tokenizer.encode("the") == Ids{260});
  CHECK(tokenizer.encode(" the") == Ids{259});
  CHECK(tokenizer.decode(Ids{259}) == " the");
}

TEST_CASE("token bytes are exact, for a part of a character too") {
  const auto bytes = Tokenizer::from_gguf(byte_level_vocab());
  CHECK(bytes.token_bytes(0xE2) == "\xE2");
  CHECK(bytes.token_bytes(kSpaceThe) == " the");
  CHECK(bytes.token_bytes(kEnd) == "<|im_end|>");
  CHECK(bytes.token_bytes(-1).empty());
  CHECK(bytes.token_bytes(bytes.vocab_size()).empty());
  const auto pieces = Tokenizer::from_gguf(sentencepiece_vocab());
  CHECK(pieces.token_bytes(3 + 0xE2) == "\xE2");
  CHECK(pieces.token_bytes(259) == " the");
}

TEST_CASE("ids and spellings of tokens are each other's inverse") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  CHECK(tokenizer.token_to_id("Ġthe") == kSpaceThe);
  CHECK(tokenizer.id_to_token(kSpaceThe) == "Ġthe");
  CHECK(tokenizer.token_to_id("<|im_end|>") == kEnd);
  CHECK(tokenizer.id_to_token(kEnd) == "<|im_end|>");
  CHECK_FALSE(tokenizer.token_to_id("absent").has_value());
  CHECK_THROWS_AS(tokenizer.id_to_token(4711), Error);
}

TEST_CASE("the ends of a turn are EOS, EOT and control tokens named like them") {
  auto vocab = byte_level_vocab();
  vocab.eos_id = 261;
  vocab.eot_id = 259;
  CHECK(Tokenizer::from_gguf(vocab).eos_ids() == Ids{259, 260, 261});
}

TEST_CASE("text that is not UTF-8 is refused with its place") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  try {
    tokenizer.encode("abc\xFFz");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalid);
    CHECK(has(error.what(), "byte 3"));
  }
}

TEST_CASE("broken vocabularies are refused by the name of the key") {
  auto vocab = byte_level_vocab("no-such-pre");
  CHECK(has(message_of(vocab), "no-such-pre"));
  CHECK(has(message_of(vocab), "llama-bpe"));
  vocab = byte_level_vocab();
  vocab.model = "rwkv";
  CHECK(has(message_of(vocab), "rwkv"));
  vocab = byte_level_vocab();
  vocab.token_types.pop_back();
  CHECK(has(message_of(vocab), "token_type"));
  vocab = byte_level_vocab();
  vocab.eos_id = 100000;
  CHECK(has(message_of(vocab), "eos_token_id"));
  vocab = byte_level_vocab();
  vocab.merges.push_back("nospace");
  CHECK(has(message_of(vocab), "merges[3]"));
  vocab = byte_level_vocab();
  vocab.merges.push_back("never there");
  CHECK(has(message_of(vocab), "merges"));
  vocab = byte_level_vocab();
  vocab.tokens.clear();
  CHECK(has(message_of(vocab), "tokens"));
  CHECK_THROWS_AS(Tokenizer::from_json("{"), Error);
  CHECK_THROWS_AS(Tokenizer::from_json("[]"), Error);
}

TEST_CASE("several threads share one tokenizer") {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_vocab());
  const std::string text = "the quick 東京 the";
  const auto expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) wrong[t] += tokenizer.encode(text) != expected;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}
