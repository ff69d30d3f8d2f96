#include "text/stop_matcher.h"

#include <doctest/doctest.h>

#include <random>

#include "base/error.h"

using namespace tandem;

namespace {

struct Outcome {
  std::string text;
  bool matched = false;
  size_t which = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome out;
  for (const auto& piece : pieces) {
    const auto result = matcher.push(piece);
    out.text += result.text;
    if (result.matched) return {out.text, true, result.which};
  }
  out.text += matcher.flush().text;
  return out;
}

// The definition: the stop that ends first; of those the longest.
Outcome naive(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    Outcome best;
    for (size_t i = 0; i < stops.size(); ++i) {
      const auto& stop = stops[i];
      if (stop.size() > end || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!best.matched || stop.size() > stops[best.which].size()) {
        best = {text.substr(0, end - stop.size()), true, i};
      }
    }
    if (best.matched) return best;
  }
  return {text, false, 0};
}

std::vector<std::string> cut(const std::string& text, unsigned mask) {
  std::vector<std::string> pieces(1);
  for (size_t i = 0; i < text.size(); ++i) {
    pieces.back() += text[i];
    if (mask >> i & 1) pieces.emplace_back();
  }
  return pieces;
}

}  // namespace

TEST_CASE("a stop string is found however the text is cut") {
  const std::string text = "one STOP two";
  for (unsigned mask = 0; mask < 1u << text.size(); ++mask) {
    REQUIRE(run({"STOP"}, cut(text, mask)) == Outcome{"one ", true, 0});
  }
}

TEST_CASE("text that only looks like a stop string is delivered whole") {
  const std::string text = "STO STSTOXP";
  for (unsigned mask = 0; mask < 1u << text.size(); ++mask) {
    REQUIRE(run({"STOP", "STSTOP"}, cut(text, mask)) == Outcome{text, false, 0});
  }
}

TEST_CASE("random texts and stop strings match the definition at every cut") {
  std::mt19937 random(1);
  const auto word = [&](size_t size_max) {
    std::string out;
    for (size_t i = 0, n = 1 + random() % size_max; i < n; ++i) out += "ab"[random() % 2];
    return out;
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0, n = 1 + random() % 3; i < n; ++i) {
      stops.push_back(std::string("a").append(word(4)));
    }
    const std::string text = word(10);
    const Outcome expected = naive(stops, text);
    CAPTURE(text);
    for (unsigned mask = 0; mask < 1u << text.size(); ++mask) {
      REQUIRE(run(stops, cut(text, mask)) == expected);
    }
  }
}

TEST_CASE("only what may begin a stop string is held back") {
  StopMatcher matcher({"\n\nUser:"});
  CHECK(matcher.push("hello\n").text == "hello");
  CHECK(matcher.push("x").text == "\nx");
  CHECK(matcher.push("\n\nUse").text.empty());
  CHECK(matcher.push("d").text == "\n\nUsed");
}

TEST_CASE("nothing is delivered after a match") {
  StopMatcher matcher({"b", "c"});
  CHECK(matcher.push("abc").text == "a");
  const auto later = matcher.push("more");
  CHECK(later.text.empty());
  CHECK(later.matched);
  CHECK(matcher.flush().text.empty());
}

TEST_CASE("of stop strings with the same end the longest wins") {
  CHECK(run({"b", "ab"}, {"xab"}) == Outcome{"x", true, 1});
}

TEST_CASE("no stop strings let all text pass at once") {
  StopMatcher matcher({});
  CHECK(matcher.push("abc").text == "abc");
}

TEST_CASE("an empty stop string is refused by its index") {
  try {
    StopMatcher({"x", ""});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalid);
    CHECK(error.param() == "stop[1]");
  }
}

TEST_CASE("long repetitive stop strings cost no more than the text is long") {
  StopMatcher matcher({std::string(20000, 'a') + "b"});
  const std::string text = std::string(200000, 'a') + "c";
  std::string out;
  for (const char c : text) out += matcher.push(std::string_view(&c, 1)).text;
  CHECK(out == text);
}
