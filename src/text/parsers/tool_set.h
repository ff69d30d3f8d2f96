// The tools of a request as a parser needs them: names, and the types that
// their schemas give to parameters.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// A set of JSON types.
struct JsonTypes {
  bool string = false, number = false, boolean = false, null = false;
  bool object = false, array = false;

  static JsonTypes any() { return {true, true, true, true, true, true}; }
  bool only_string() const { return string && !(number || boolean || null || object || array); }
};

struct ToolSignature {
  std::string name;
  std::map<std::string, JsonTypes, std::less<>> parameters;

  // Of a parameter that the schema does not name: any type.
  JsonTypes types_of(std::string_view parameter) const;
};

class ToolSet {
 public:
  // `schema` is a JSON schema of an object, or null for no parameters.
  void add(std::string name, const nlohmann::ordered_json& schema);

  const ToolSignature* find(std::string_view name) const;
  bool empty() const { return tools_.empty(); }
  const std::map<std::string, ToolSignature, std::less<>>& all() const { return tools_; }

  int calls_max = 0;  // what comes after so many calls is dropped; 0 = no limit

 private:
  std::map<std::string, ToolSignature, std::less<>> tools_;
};

// The text of a value as JSON, by the types it may have: the first of null,
// boolean, number, object and array that the text can be, else a string.
std::string typed_value(std::string_view text, const JsonTypes& types);

}  // namespace tandem
