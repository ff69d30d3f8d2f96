#include "api/grammar_options.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "api/schema_check.h"
#include "base/error.h"
#include "base/json.h"
#include "text/parsers/json_scanner.h"

namespace tandem::api {
namespace {

// Without a bound some models write white space for ever.
constexpr const char* kShortSpace = R"({"whitespace_pattern":"[ \\t\\n\\r]{0,24}"})";
constexpr const char* kAnyObject =
    R"({"type":"object","x-guidance":{"whitespace_pattern":"[ \\t\\n\\r]{0,24}"}})";

AnswerForm schema_form(const Json& value, const std::string& path) {
  Json schema = value;
  if (schema.is_string())
    schema = parse_ordered_json(value.get_ref<const std::string&>(), {}, path + ":");
  if (!schema.is_object() && !schema.is_boolean())
    throw_expected(path, "a JSON schema, an object", value);
  std::string refusal;
  try {
    check_schema(schema, path);
  } catch (const Error& error) {
    refusal = error.what();
  }
  if (schema.is_object()) schema["x-guidance"] = Json::parse(kShortSpace);
  return {{GrammarKind::kJsonSchema, to_text(schema)}, path, refusal};
}

AnswerForm grammar_form(const std::string& text, const std::string& path) {
  const bool gbnf = text.find("::=") != std::string::npos;
  return {{GrammarKind::kLark, gbnf ? lark_of_gbnf(text) : text}, path, {}};
}

AnswerForm choice_form(const Json& choices, const std::string& path) {
  if (!choices.is_array() || choices.empty())
    throw_expected(path, "an array of one or more strings", choices);
  std::string rule = "start: ";
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].is_string() || choices[i].get_ref<const std::string&>().empty())
      throw_expected(path + "[" + std::to_string(i) + "]", "a string that is not empty",
                     choices[i]);
    if (i > 0) rule += " | ";
    rule += json_string(choices[i].get_ref<const std::string&>());
  }
  return {{GrammarKind::kLark, rule + "\n"}, path, {}};
}

AnswerForm regex_form(const std::string& regex, const std::string& path) {
  return {{GrammarKind::kRegex, regex}, path, {}};
}

AnswerForm object_form(const std::string& path) {
  AnswerForm form;
  form.grammar.kind = GrammarKind::kJsonSchema;
  form.grammar.text = kAnyObject;
  form.param = path;
  return form;
}

using Forms = std::vector<AnswerForm>;

void response_format(Fields& fields, Forms& out) {
  const Json* format = fields.object("response_format");
  if (!format) return;
  Fields inner(*format, fields.path_of("response_format"));
  const auto type = inner.string("type").value_or("text");
  if (type == "text") return;
  if (type == "json_object") return out.push_back(object_form(inner.path_of("type")));
  if (type == "regex" || type == "grammar") {
    const auto text = inner.string(type == "regex" ? "pattern" : "grammar");
    if (!text)
      throw Error(ErrorCode::kInvalid, inner.path_of(type) + ": required", inner.path_of(type));
    out.push_back(type == "regex" ? regex_form(*text, inner.path_of("pattern"))
                                  : grammar_form(*text, inner.path_of("grammar")));
    return;
  }
  if (type != "json_schema")
    throw Error(ErrorCode::kUnsupported,
                inner.path_of("type") + ": expected text, json_object or json_schema, got " +
                    describe(Json(type)),
                inner.path_of("type"));
  const Json* named = inner.object("json_schema");
  if (!named)
    throw Error(ErrorCode::kInvalid, inner.path_of("json_schema") + ": required",
                inner.path_of("json_schema"));
  Fields schema(*named, inner.path_of("json_schema"));
  const Json* value = schema.find("schema");
  out.push_back(value ? schema_form(*value, schema.path_of("schema"))
                      : object_form(schema.path_of("schema")));
}

void structured_outputs(Fields& fields, Forms& out) {
  const Json* value = fields.object("structured_outputs");
  if (!value) return;
  Fields inner(*value, fields.path_of("structured_outputs"));
  if (const Json* json = inner.find("json"))
    return out.push_back(schema_form(*json, inner.path_of("json")));
  if (inner.boolean("json_object").value_or(false))
    return out.push_back(object_form(inner.path_of("json_object")));
  if (auto regex = inner.string("regex"))
    return out.push_back(regex_form(*regex, inner.path_of("regex")));
  if (const Json* choice = inner.find("choice"))
    return out.push_back(choice_form(*choice, inner.path_of("choice")));
  if (auto text = inner.string("grammar"))
    return out.push_back(grammar_form(*text, inner.path_of("grammar")));
  throw Error(ErrorCode::kUnsupported,
              "structured_outputs: expected json, json_object, regex, choice or grammar",
              "structured_outputs");
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// From the quote or bracket at `at` to its end, both included.
std::string_view quoted(std::string_view text, size_t at, char close) {
  size_t end = at + 1;
  while (end < text.size() && text[end] != close) end += text[end] == '\\' ? 2 : 1;
  return text.substr(at, std::min(end + 1, text.size()) - at);
}

std::string slashes_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '/') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::optional<AnswerForm> parse_answer_form(Fields& fields) {
  Forms forms, format;
  response_format(fields, format);
  const bool object = !format.empty() && format[0].grammar.text == kAnyObject;
  // In the order in which they count; all are looked at, so that none is wrong unseen.
  for (const char* name : {"guided_grammar", "grammar"})
    if (auto text = fields.string(name); text && !text->empty())
      forms.push_back(grammar_form(*text, fields.path_of(name)));
  if (!object) forms.insert(forms.end(), format.begin(), format.end());
  for (const char* name : {"guided_json", "json_schema"})
    if (const Json* value = fields.find(name))
      forms.push_back(schema_form(*value, fields.path_of(name)));
  if (object) forms.push_back(format[0]);
  structured_outputs(fields, forms);
  if (auto text = fields.string("guided_regex"))
    forms.push_back(regex_form(*text, fields.path_of("guided_regex")));
  if (const Json* value = fields.find("guided_choice"))
    forms.push_back(choice_form(*value, fields.path_of("guided_choice")));
  if (forms.empty()) return {};
  return std::move(forms.front());
}

std::string lark_of_gbnf(const std::string& text) {
  std::string out;
  const std::string_view all = text;
  for (size_t i = 0; i < all.size();) {
    const char c = all[i];
    if (c == '"') {
      const auto literal = quoted(all, i, '"');
      out += literal;
      i += literal.size();
    } else if (c == '[') {
      const auto set = quoted(all, i, ']');
      out.append("/").append(slashes_escaped(set)).append("/");
      i += set.size();
    } else if (c == '#') {
      i = std::min(all.find('\n', i), all.size());
    } else if (is_name(c) && (c < '0' || c > '9')) {
      size_t end = i;
      while (end < all.size() && is_name(all[end])) ++end;
      std::string name(all.substr(i, end - i));
      for (char& part : name)
        part = part == '-' ? '_' : part >= 'A' && part <= 'Z' ? part + 32 : part;
      out += name == "root" ? "start" : "r_" + name;
      i = end;
    } else if (all.substr(i).starts_with("::=")) {
      out += ":";
      i += 3;
    } else if (c == '.') {
      out += R"(/(.|\n)/)";
      ++i;
    } else {
      out += c;
      ++i;
    }
  }
  return out;
}

}  // namespace tandem::api
