#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

namespace tandem {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const JsonLimits& limits, std::string_view what, const std::string& why) {
  throw Error(limits.code, std::string(what) + " " + why);
}

// "line 3, column 14" of a byte offset.
std::string place(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  auto before = text.substr(0, offset);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
  return "line " + std::to_string(line) + ", column " + std::to_string(offset - line_start + 1);
}

// Bounds depth and number of values without building anything. Every value but
// the first of its array follows a comma, so commas and openings bound them.
void check_bounds(std::string_view text, const JsonLimits& limits, std::string_view what) {
  if (text.size() > limits.bytes_max) {
    refuse(limits, what,
           "is too large: " + std::to_string(text.size()) + " bytes, the limit is " +
               std::to_string(limits.bytes_max));
  }
  int depth = 0;
  size_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); i++) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') i++;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == ']' || c == '}') depth--;
    if (c == ',') values++;
    if (c == '[' || c == '{') {
      values++;
      if (++depth > limits.depth_max) {
        refuse(limits, what,
               "is nested too deeply at " + place(text, i) + ": the limit is " +
                   std::to_string(limits.depth_max) + " levels");
      }
    }
    if (values > limits.values_max) {
      refuse(limits, what,
             "has too many values: the limit is " + std::to_string(limits.values_max));
    }
  }
}

// What nlohmann says, without its prefix and without quoting the text: it may
// be long, and need not be valid UTF-8.
std::string reason(const json::exception& error) {
  std::string text = error.what();
  if (auto end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
  if (auto quoted = text.find("; last read"); quoted != std::string::npos) {
    auto expected = text.rfind("; expected");
    std::string tail =
        expected == std::string::npos || expected < quoted ? "" : text.substr(expected);
    text = text.substr(0, quoted) + tail;
  }
  if (auto colon = text.find(": "); text.starts_with("parse error") && colon != std::string::npos) {
    text.erase(0, colon + 2);
  }
  if (text.size() > 160) text = text.substr(0, 160) + "...";
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

// Refuses a second equal key within one object. Keeps one set an open object.
class KeyCheck {
 public:
  KeyCheck(const JsonLimits& limits, std::string_view what) : limits_(limits), what_(what) {}

  bool operator()(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key) check(parsed.get_ref<const std::string&>());
    return true;
  }

 private:
  void check(const std::string& key) {
    if (open_.back().insert(key).second) return;
    std::string shown = json(key.substr(0, 80)).dump(-1, ' ', true, json::error_handler_t::replace);
    refuse(limits_, what_, "names the key " + shown + " twice in one object");
  }

  const JsonLimits& limits_;
  std::string_view what_;
  std::vector<std::unordered_set<std::string>> open_;
};

json parse(std::string_view text, const JsonLimits& limits, std::string_view what) {
  if (!limits.unique_keys) return json::parse(text);
  KeyCheck keys(limits, what);
  return json::parse(
      text, [&](int, json::parse_event_t event, json& parsed) { return keys(event, parsed); });
}

}  // namespace

json parse_json(std::string_view text, const JsonLimits& limits, std::string_view what) {
  check_bounds(text, limits, what);
  try {
    return parse(text, limits, what);
  } catch (const json::parse_error& error) {
    size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    refuse(limits, what, "is not valid JSON at " + place(text, offset) + ": " + reason(error));
  } catch (const json::exception& error) {
    refuse(limits, what, "is not valid JSON: " + reason(error));
  }
}

}  // namespace tandem
