#include "base/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace tandem;

namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, limits, "the text");
  } catch (const Error& error) {
    CHECK(error.code() == limits.code);
    return error.what();
  }
  return "";
}

std::string repeat(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; i++) text += part;
  return text;
}

}  // namespace

TEST_CASE("JSON within the limits is parsed") {
  auto value = parse_json(R"({"a": [1, 2.5, "[[[{{\"", null], "b": {"c": true}})", {}, "the text");
  CHECK(value["a"][0] == 1);
  CHECK(value["a"][2] == "[[[{{\"");
  CHECK(value["b"]["c"] == true);
}

TEST_CASE("nesting is allowed up to the limit and refused one level above it") {
  JsonLimits limits{.depth_max = 5};
  CHECK(error_of(repeat("[", 5) + repeat("]", 5), limits) == "");
  CHECK(error_of(repeat("[", 6) + repeat("]", 6), limits) ==
        "the text is nested too deeply at line 1, column 6: the limit is 5 levels");
}

TEST_CASE("a hundred thousand nested arrays or objects are refused, closed or not") {
  for (std::string_view open : {"[", "{\"a\":", "[{\"a\":"}) {
    CHECK(error_of(repeat(open, 100000)).find("nested too deeply") != std::string::npos);
  }
  CHECK(error_of(repeat("[", 100000) + repeat("]", 100000)).find("128 levels") !=
        std::string::npos);
}

TEST_CASE("brackets within strings do not count as nesting") {
  CHECK(error_of("[\"" + repeat("[", 1000) + "\\\"" + repeat("{", 1000) + "\"]") == "");
}

TEST_CASE("too many bytes or values are refused before parsing") {
  CHECK(error_of("[1,2,3]", {.bytes_max = 6}) == "the text is too large: 7 bytes, the limit is 6");
  CHECK(error_of("[1,2,3,4,5]", {.values_max = 4}) ==
        "the text has too many values: the limit is 4");
}

TEST_CASE("a syntax error names line and column and the message stays short and ASCII") {
  CHECK(error_of("{\n  \"a\": nope}").find("is not valid JSON at line 2, column") !=
        std::string::npos);
  std::string message = error_of("[\"" + repeat("\xff\xfe", 100000) + "\"]");
  CHECK(message.find("is not valid JSON") != std::string::npos);
  CHECK(message.size() < 400);
  for (char c : message) CHECK((c >= 0x20 && c < 0x7f));
  CHECK(error_of("").find("is not valid JSON at line 1, column 1") != std::string::npos);
  CHECK(error_of("1e999").find("is not valid JSON") != std::string::npos);
}

TEST_CASE("a key named twice is refused where keys must be unique") {
  CHECK(error_of(R"({"a": 1, "a": 2})") == "");
  JsonLimits unique{.unique_keys = true, .code = ErrorCode::kLoad};
  CHECK(error_of(R"({"a": 1, "a": 2})", unique) ==
        "the text names the key \"a\" twice in one object");
  CHECK(error_of(R"({"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]})", unique) == "");
}

TEST_CASE("ordered parsing keeps the order of keys, and of equal keys the last one") {
  const auto value =
      parse_ordered_json(R"({"b": 1, "a": {"z": [], "y": 2.5}, "b": null})", {}, "x");
  CHECK(value.dump() == R"({"a":{"z":[],"y":2.5},"b":null})");
}

TEST_CASE("ordered parsing refuses what is no JSON by its place") {
  for (const char* text : {"{\"a\": }", "[1, 2", "", "1e999", "{\"a\" 1}"}) {
    CAPTURE(text);
    std::string plain, ordered;
    try {
      parse_json(text, {}, "the text");
    } catch (const Error& error) {
      plain = error.what();
    }
    try {
      parse_ordered_json(text, {}, "the text");
    } catch (const Error& error) {
      ordered = error.what();
    }
    CHECK(plain.starts_with("the text is not valid JSON"));
    CHECK(ordered == plain);
  }
}

TEST_CASE("an object of many keys is read in linear time") {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += "\"k" + std::to_string(i) + "\":0,";
  text += "\"end\":1}";
  CHECK(parse_ordered_json(text, {}, "the text").size() == 300'001);
}
