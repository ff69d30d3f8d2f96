#include "text/grammar.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "text/vocabs.h"

using namespace tandem;
using Ids = std::vector<int32_t>;

namespace {

constexpr int32_t kThe = 257, kStart = 259, kEnd = 260, kPad = 261;

struct Setup {
  Tokenizer tokenizer = Tokenizer::from_gguf(test::byte_level_vocab());
  GrammarCompiler compiler{tokenizer, Ids{kEnd, kPad}};
};

Ids allowed(GrammarMatcher& matcher) {
  std::vector<uint32_t> bits(9, ~0u);
  matcher.mask(bits);
  Ids ids;
  for (int32_t id = 0; id < 288; ++id) {
    if (bits[id / 32] >> (id % 32) & 1) ids.push_back(id);
  }
  return ids;
}

// Takes the text byte by byte; false as soon as a byte is not allowed.
bool takes(GrammarMatcher& matcher, const std::string& text) {
  for (const char c : text) {
    try {
      matcher.accept(static_cast<unsigned char>(c));
    } catch (const Error&) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a regular expression allows only tokens that can continue it") {
  const Setup s;
  auto matcher = s.compiler.compile(GrammarKind::kRegex, "the|thx");
  CHECK(allowed(matcher) == Ids{'t', 256, kThe});
  matcher.accept(256);
  CHECK(allowed(matcher) == Ids{'e', 'x'});
  matcher.accept('e');
  CHECK(allowed(matcher) == Ids{kEnd, kPad});
  CHECK(matcher.is_stopped());
}

TEST_CASE("a token that is not allowed is refused and changes nothing") {
  const Setup s;
  auto matcher = s.compiler.compile(GrammarKind::kRegex, "the");
  CHECK_THROWS_AS(matcher.accept('x'), Error);
  CHECK_THROWS_AS(matcher.accept(-1), Error);
  CHECK(takes(matcher, "the"));
}

TEST_CASE("a JSON schema takes what fits it and nothing else") {
  const Setup s;
  const char* schema =
      R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
          "additionalProperties": false})";
  auto good = s.compiler.compile(GrammarKind::kJsonSchema, schema);
  CHECK(takes(good, R"({"a": 12})"));
  CHECK(good.is_stopped());
  auto bad = s.compiler.compile(GrammarKind::kJsonSchema, schema);
  CHECK_FALSE(takes(bad, R"({"b")"));
}

TEST_CASE("a Lark grammar is followed") {
  const Setup s;
  auto matcher = s.compiler.compile(GrammarKind::kLark, "start: \"a\"+ \"b\"");
  CHECK(allowed(matcher) == Ids{'a'});
  CHECK(takes(matcher, "aab"));
  CHECK(matcher.is_stopped());
}

TEST_CASE("text rules never allow control tokens") {
  const Setup s;
  auto matcher = s.compiler.compile(GrammarKind::kRegex, "(?s:.)*");
  const Ids ids = allowed(matcher);
  CHECK(std::count(ids.begin(), ids.end(), kStart) == 0);
  CHECK(std::count(ids.begin(), ids.end(), kEnd) == 1);
  CHECK(std::count(ids.begin(), ids.end(), kPad) == 1);
}

TEST_CASE("clones and rolled back matchers go their own way") {
  const Setup s;
  auto matcher = s.compiler.compile(GrammarKind::kRegex, "ab|cd");
  auto other = matcher.clone();
  CHECK(takes(matcher, "a"));
  CHECK(takes(other, "cd"));
  matcher.rollback(1);
  CHECK(allowed(matcher) == Ids{'a', 'c'});
  CHECK(takes(matcher, "cd"));
}

TEST_CASE("grammars that are none are refused") {
  const Setup s;
  for (const auto& [kind, text] : {std::pair{GrammarKind::kJsonSchema, "{"},
                                   {GrammarKind::kJsonSchema, R"({"type": "strnig"})"},
                                   {GrammarKind::kRegex, "(("},
                                   {GrammarKind::kLark, "start: missing"}}) {
    CHECK_THROWS_AS(s.compiler.compile(kind, text), Error);
  }
  CHECK_THROWS_AS(GrammarCompiler(s.tokenizer, Ids{}), Error);
  CHECK_THROWS_AS(GrammarCompiler(s.tokenizer, Ids{4711}), Error);
}

TEST_CASE("a mask of too few words is refused") {
  const Setup s;
  auto matcher = s.compiler.compile(GrammarKind::kRegex, "a");
  std::vector<uint32_t> bits(1);
  CHECK_THROWS_AS(matcher.mask(bits), Error);
}
