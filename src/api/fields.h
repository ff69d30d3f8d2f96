// Typed access to the fields of a JSON object that a client sent.
//
// null counts as absent. A wrong type or range throws Error(kInvalid) that names
// the field, what was expected and what came, with the field's path as param
// ("messages[0].content"). Fields that nobody asked for are listed by unknown().
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/json_text.h"

namespace tandem::api {

class Fields {
 public:
  // `object` must outlive this. Throws when it is not an object.
  explicit Fields(const Json& object, std::string path = {});

  // Null when absent.
  const Json* find(const std::string& name);
  const Json* array(const std::string& name);
  const Json* object(const std::string& name);
  std::optional<bool> boolean(const std::string& name);
  std::optional<std::string> string(const std::string& name);
  // Bounds are included.
  std::optional<double> number(const std::string& name, double min, double max);
  std::optional<int64_t> integer(const std::string& name, int64_t min, int64_t max);

  // Fields known to change nothing here: not reported as unknown.
  void ignore(std::initializer_list<const char*> names);
  std::vector<std::string> unknown() const;

  std::string path_of(const std::string& name) const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string> known_;
};

// "the string \"hot\"", "an array", for messages.
std::string describe(const Json& value);
[[noreturn]] void throw_expected(const std::string& path, const std::string& expected,
                                 const Json& got);

}  // namespace tandem::api
