#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

namespace tandem {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

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

// Builds values with objects in the order of the text. nlohmann's own parser
// would look for each key among all before it.
class OrderedBuilder : public nlohmann::json_sax<ordered_json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return open(ordered_json::object()); }
  bool start_array(size_t) override { return open(ordered_json::array()); }
  bool end_array() override { return close(); }
  bool end_object() override {
    drop_repeated(open_.back().value.get_ref<ordered_json::object_t&>());
    return close();
  }
  bool parse_error(size_t byte, const std::string&, const json::exception& error) override {
    constexpr int kParseErrors = 200;
    if (error.id < kParseErrors) byte_ = byte;
    reason_ = reason(error);
    return false;
  }

  ordered_json take() { return std::move(result_); }
  const std::string& why() const { return reason_; }
  size_t byte() const { return byte_; }  // from 1 on; 0 = not known

 private:
  struct Open {
    ordered_json value;
    std::string key;  // of the member that comes
  };

  bool open(ordered_json value) {
    open_.push_back({std::move(value), {}});
    return true;
  }

  bool close() {
    ordered_json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  bool add(ordered_json value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (Open& top = open_.back(); top.value.is_array()) {
      top.value.push_back(std::move(value));
    } else {
      top.value.get_ref<ordered_json::object_t&>().emplace_back(std::move(top.key),
                                                                std::move(value));
    }
    return true;
  }

  static void drop_repeated(ordered_json::object_t& object) {
    std::unordered_set<std::string_view> seen;
    std::vector<bool> keeps(object.size());
    for (size_t i = object.size(); i-- > 0;) keeps[i] = seen.insert(object.begin()[i].first).second;
    if (seen.size() == object.size()) return;
    ordered_json::object_t unique;
    for (size_t i = 0; i < object.size(); ++i)
      if (keeps[i])
        unique.emplace_back(object.begin()[i].first, std::move(object.begin()[i].second));
    object = std::move(unique);
  }

  std::vector<Open> open_;
  ordered_json result_;
  std::string reason_;
  size_t byte_ = 0;
};

}  // namespace

ordered_json parse_ordered_json(std::string_view text, const JsonLimits& limits,
                                std::string_view what) {
  check_bounds(text, limits, what);
  OrderedBuilder builder;
  if (ordered_json::sax_parse(text, &builder)) return builder.take();
  const std::string where =
      builder.byte() > 0 ? " at " + place(text, builder.byte() - 1) : std::string();
  refuse(limits, what, "is not valid JSON" + where + ": " + builder.why());
}

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
