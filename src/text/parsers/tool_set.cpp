#include "text/parsers/tool_set.h"

#include <nlohmann/json.hpp>

#include "text/parsers/json_scanner.h"
#include "text/parsers/python_literal.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRefDepthMax = 16;

void add_type(const std::string& name, JsonTypes& types) {
  if (name == "string") types.string = true;
  if (name == "number" || name == "integer") types.number = true;
  if (name == "boolean") types.boolean = true;
  if (name == "null") types.null = true;
  if (name == "object") types.object = true;
  if (name == "array") types.array = true;
}

void add_value(const Json& value, JsonTypes& types) {
  types.string |= value.is_string();
  types.number |= value.is_number();
  types.boolean |= value.is_boolean();
  types.null |= value.is_null();
  types.object |= value.is_object();
  types.array |= value.is_array();
}

const Json* resolve(const Json& root, const std::string& ref) {
  if (!ref.starts_with("#")) return nullptr;
  try {
    const Json::json_pointer pointer(ref.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

JsonTypes both(const JsonTypes& a, const JsonTypes& b) {
  return {a.string && b.string, a.number && b.number, a.boolean && b.boolean,
          a.null && b.null,     a.object && b.object, a.array && b.array};
}

JsonTypes either(const JsonTypes& a, const JsonTypes& b) {
  return {a.string || b.string, a.number || b.number, a.boolean || b.boolean,
          a.null || b.null,     a.object || b.object, a.array || b.array};
}

JsonTypes types_of_schema(const Json& root, const Json& schema, int depth);

JsonTypes types_of_all(const Json& root, const Json& schema, int depth) {
  JsonTypes types = JsonTypes::any();
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto options = schema.find(key);
    if (options == schema.end() || !options->is_array()) continue;
    JsonTypes sum;
    for (const Json& option : *options) sum = either(sum, types_of_schema(root, option, depth));
    types = both(types, sum);
  }
  if (const auto parts = schema.find("allOf"); parts != schema.end() && parts->is_array())
    for (const Json& part : *parts) types = both(types, types_of_schema(root, part, depth));
  return types;
}

JsonTypes types_of_schema(const Json& root, const Json& schema, int depth) {
  if (!schema.is_object() || depth > kRefDepthMax) return JsonTypes::any();
  if (const auto ref = schema.find("$ref"); ref != schema.end() && ref->is_string()) {
    const Json* target = resolve(root, ref->get_ref<const std::string&>());
    return target ? types_of_schema(root, *target, depth + 1) : JsonTypes::any();
  }
  JsonTypes types = types_of_all(root, schema, depth + 1);
  JsonTypes own;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) add_type(type->get_ref<const std::string&>(), own);
    if (type->is_array())
      for (const Json& name : *type)
        if (name.is_string()) add_type(name.get_ref<const std::string&>(), own);
    if (const auto nullable = schema.find("nullable"); nullable != schema.end())
      own.null |= *nullable == true;
  } else if (const auto list = schema.find("enum"); list != schema.end() && list->is_array()) {
    for (const Json& value : *list) add_value(value, own);
  } else if (const auto value = schema.find("const"); value != schema.end()) {
    add_value(*value, own);
  } else {
    return types;
  }
  return both(types, own);
}

bool same_word(std::string_view text, std::string_view word) {
  return text.size() == word.size() &&
         std::equal(text.begin(), text.end(), word.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

}  // namespace

JsonTypes ToolSignature::types_of(std::string_view parameter) const {
  const auto it = parameters.find(parameter);
  return it == parameters.end() ? JsonTypes::any() : it->second;
}

void ToolSet::add(std::string name, const Json& schema) {
  ToolSignature tool;
  tool.name = name;
  if (schema.is_object()) {
    const auto properties = schema.find("properties");
    if (properties != schema.end() && properties->is_object())
      for (const auto& [key, value] : properties->items())
        tool.parameters.emplace(key, types_of_schema(schema, value, 0));
  }
  tools_.insert_or_assign(std::move(name), std::move(tool));
}

const ToolSignature* ToolSet::find(std::string_view name) const {
  const auto it = tools_.find(name);
  return it == tools_.end() ? nullptr : &it->second;
}

std::string typed_value(std::string_view text, const JsonTypes& types) {
  const std::string_view core = trimmed(text);
  if (types.null && (same_word(core, "null") || same_word(core, "none"))) return "null";
  if (types.boolean && same_word(core, "true")) return "true";
  if (types.boolean && same_word(core, "false")) return "false";
  if (types.number && is_json_number(core)) return std::string(core);
  const bool container =
      (types.object && core.starts_with('{')) || (types.array && core.starts_with('['));
  if (container) {
    if (auto json = checked_json(core)) return *json;
    if (auto json = python_to_json(core)) return *json;
  }
  return json_string(text);
}

}  // namespace tandem
