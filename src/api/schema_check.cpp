#include "api/schema_check.h"

#include <nlohmann/json.hpp>
#include <set>

#include "api/fields.h"
#include "base/error.h"

namespace tandem::api {
namespace {

const std::set<std::string> kKnown = {
    "anyOf", "oneOf", "allOf", "$ref", "const", "enum", "type", "items", "additionalItems",
    "prefixItems", "minItems", "maxItems", "properties", "additionalProperties",
    "patternProperties", "required", "minProperties", "maxProperties", "minLength", "maxLength",
    "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    // Said of a value, not asked of it.
    "$anchor", "$defs", "definitions", "$schema", "$id", "id", "$comment", "title", "description",
    "default", "readOnly", "writeOnly", "examples", "example", "contentMediaType",
    "contentEncoding", "deprecated", "nullable", "strict"};
// Those that others know and that ask something of a value.
const std::set<std::string> kRefused = {"if",
                                        "then",
                                        "else",
                                        "not",
                                        "contains",
                                        "minContains",
                                        "maxContains",
                                        "uniqueItems",
                                        "propertyNames",
                                        "dependentRequired",
                                        "dependentSchemas",
                                        "dependencies",
                                        "unevaluatedItems",
                                        "unevaluatedProperties",
                                        "$dynamicRef",
                                        "$recursiveRef"};
const std::set<std::string> kTypes = {"string", "number", "integer", "boolean",
                                      "null",   "object", "array"};
constexpr int kNodesMax = 20'000;

class Checker {
 public:
  Checker(const Json& root, const std::string& path) : root_(root), path_(path) {}

  void run() {
    walk(root_, "");
    if (!is_finite(root_)) refuse("", "no finite value satisfies this schema");
  }

 private:
  [[noreturn]] void refuse(const std::string& place, const std::string& why) const {
    throw Error(ErrorCode::kInvalid,
                path_ + ": at " + (place.empty() ? "the root" : place) + ": " + why, path_);
  }

  void walk(const Json& schema, const std::string& place) {
    if (schema.is_boolean()) return;
    if (!schema.is_object()) refuse(place, "expected a schema, got " + describe(schema));
    if (++nodes_ > kNodesMax) refuse(place, "the schema is too large");
    for (const auto& [key, value] : schema.items()) keyword(key, value, place);
  }

  void keyword(const std::string& key, const Json& value, const std::string& place) {
    const std::string here = place + "/" + key;
    if (kRefused.contains(key)) refuse(place, "the keyword \"" + key + "\" is not supported");
    if (key == "type") type(value, here);
    if (key == "enum" && (!value.is_array() || value.empty()))
      refuse(here, "enum must be an array with at least one value");
    if (key == "$ref" && (!value.is_string() || !target(value.get_ref<const std::string&>())))
      refuse(here,
             "$ref leads nowhere; only references within the schema, such as "
             "\"#/$defs/name\", are supported");
    if (key == "required" && !value.is_array()) refuse(here, "expected an array of names");
    if (key == "items" || key == "additionalProperties" || key == "additionalItems") {
      if (value.is_array()) {
        each(value, here);
      } else {
        walk(value, here);
      }
    }
    if (key == "anyOf" || key == "oneOf" || key == "allOf" || key == "prefixItems") {
      if (!value.is_array()) refuse(here, "expected an array of schemas");
      if (value.empty()) refuse(here, "expected at least one schema");
      each(value, here);
    }
    if (key == "properties" || key == "patternProperties" || key == "$defs" ||
        key == "definitions") {
      if (!value.is_object()) refuse(here, "expected an object of schemas");
      for (const auto& [name, inner] : value.items()) walk(inner, here + "/" + name);
    }
  }

  void each(const Json& list, const std::string& here) {
    for (size_t i = 0; i < list.size(); ++i) walk(list[i], here + "/" + std::to_string(i));
  }

  void type(const Json& value, const std::string& here) const {
    const auto one = [&](const Json& name) {
      if (name.is_string() && kTypes.contains(name.get_ref<const std::string&>())) return;
      refuse(here, "there is no type " + to_text(name) +
                       "; types are string, number, integer, boolean, null, object and array");
    };
    if (!value.is_array()) return one(value);
    for (const Json& name : value) one(name);
  }

  const Json* target(const std::string& ref) const {
    if (ref == "#") return &root_;
    if (!ref.starts_with("#/")) return nullptr;
    try {
      const Json::json_pointer pointer(ref.substr(1));
      return root_.contains(pointer) ? &root_.at(pointer) : nullptr;
    } catch (const Json::exception&) {
      return nullptr;
    }
  }

  // Whether some finite value exists, as far as structure tells: what is on the way
  // already has to be left out.
  bool is_finite(const Json& schema) {
    if (!schema.is_object()) return schema != false;
    if (finite_.contains(&schema)) return true;
    if (++nodes_ > 4 * kNodesMax || !on_way_.insert(&schema).second) return nodes_ > 4 * kNodesMax;
    const bool finite = parts_are_finite(schema);
    on_way_.erase(&schema);
    if (finite) finite_.insert(&schema);
    return finite;
  }

  bool parts_are_finite(const Json& schema) {
    if (const auto ref = schema.find("$ref"); ref != schema.end())
      if (!is_finite(*target(ref->get_ref<const std::string&>()))) return false;
    if (const auto all = schema.find("allOf"); all != schema.end())
      for (const Json& part : *all)
        if (!is_finite(part)) return false;
    for (const char* key : {"anyOf", "oneOf"}) {
      const auto options = schema.find(key);
      if (options == schema.end()) continue;
      bool any = false;
      for (const Json& option : *options) any = any || is_finite(option);
      if (!any) return false;
    }
    return members_are_finite(schema);
  }

  // What must be there: required properties of objects that must be objects, and
  // items of arrays that must have some.
  bool members_are_finite(const Json& schema) {
    const auto type = schema.find("type");
    const auto only = [&](const char* name) { return type != schema.end() && *type == name; };
    const auto required = schema.find("required");
    const auto properties = schema.find("properties");
    if (only("object") && required != schema.end() && properties != schema.end())
      for (const Json& name : *required) {
        if (!name.is_string()) continue;
        const auto property = properties->find(name.get_ref<const std::string&>());
        if (property != properties->end() && !is_finite(*property)) return false;
      }
    const auto items = schema.find("items");
    const auto least = schema.find("minItems");
    const bool some = least != schema.end() && least->is_number() && least->get<double>() > 0;
    return !(only("array") && some && items != schema.end() && items->is_object() &&
             !schema.contains("prefixItems") && !is_finite(*items));
  }

  const Json& root_;
  const std::string& path_;
  int nodes_ = 0;
  std::set<const Json*> finite_, on_way_;
};

}  // namespace

void check_schema(const Json& schema, const std::string& path) { Checker(schema, path).run(); }

}  // namespace tandem::api
