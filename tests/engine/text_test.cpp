// Text and stop strings of a row, on a model that says what it is told to.
#include <doctest/doctest.h>

#include "helpers.h"
#include "text/tokenizer.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

// Ids of the one-character tokens that spell the text.
Ids spell(const std::string& text) {
  Ids ids;
  for (char c : text) ids.push_back(c - kFirstCharacter);
  return ids;
}

FakeOptions says(Ids script) {
  return {.stop_ids = {kEndToken}, .tokenizer = fake_tokenizer(), .script = std::move(script)};
}

Collected answer(const FakeOptions& fake, int max_tokens, std::vector<std::string> stop = {},
                 int min_tokens = 0) {
  auto e = engine(fake);
  Request r = request(prompt(5), max_tokens);
  r.stop = std::move(stop);
  r.min_tokens = min_tokens;
  return run(*e, r);
}

Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("text is that of the tokens, and ends before the stop token") {
  const Collected all = answer(says(spell("Hello") + Ids{kEndToken}), 50);
  CHECK(all.text == "Hello");
  CHECK(all.last.finish == FinishReason::kStop);
  CHECK(all.last.matched_stop.empty());
  CHECK(all.last.usage.generated_tokens == 6);
}

TEST_CASE("a stop string that spans tokens ends the row, and is cut from the text") {
  const Collected all = answer(says(spell("one;END;two")), 50, {";END;", "zzz"});
  CHECK(all.text == "one");
  CHECK(all.last.finish == FinishReason::kStop);
  CHECK(all.last.matched_stop == ";END;");
  CHECK(all.ids.size() == 8);
}

TEST_CASE("a stop string inside a token leaves the text before it") {
  const Collected all = answer(says(spell("x") + Ids{kTwoLetterToken} + spell("y")), 50, {"b"});
  CHECK(all.text == "xa");
  CHECK(all.last.matched_stop == "b");
}

TEST_CASE("text held back for a stop string that never comes is delivered at the end") {
  CHECK(answer(says(spell("abc;EN")), 6, {";END;"}).text == "abc;EN");
  const Collected stopped = answer(says(spell("abc;EN") + Ids{kEndToken}), 50, {";END;"});
  CHECK(stopped.text == "abc;EN");
  CHECK(stopped.last.finish == FinishReason::kStop);
}

TEST_CASE("a character arrives whole, however many tokens it takes") {
  const FakeOptions fake = says(Ids{90, 91, 92, 93} + spell("x"));
  auto e = engine(fake);
  auto stream = e->submit(request(prompt(5), 5));
  std::vector<std::string> pieces;
  Event event;
  while (stream->next(event)) {
    if (!event.text.empty()) pieces.push_back(event.text);
  }
  CHECK(pieces == std::vector<std::string>{"\U0001F600", "x"});
}

TEST_CASE("an incomplete character at the end becomes a replacement character") {
  CHECK(answer(says(spell("x") + Ids{90, 91}), 3).text == "x\uFFFD");
}

TEST_CASE("stop strings are not looked for before min_tokens") {
  const Collected all = answer(says(spell("a;b;c;")), 6, {";"}, 5);
  CHECK(all.text == "a;b;c");
}

TEST_CASE("a control token that is generated and does not stop the row has no text") {
  auto e = engine(says(spell("a") + Ids{kEndToken} + spell("b")));
  Request r = request(prompt(5), 3);
  r.ignore_eos = true;
  const Collected all = run(*e, r);
  CHECK(all.text == "ab");
  CHECK(all.ids.size() == 3);
}
