// The form that a client asks the answer to have.
#pragma once

#include <optional>
#include <string>

#include "api/fields.h"
#include "text/parsers/answer_grammar.h"

namespace tandem::api {

struct AnswerForm {
  GrammarText grammar;
  std::string param;  // the field that asks for it
  // Why it can't be enforced: an Error(kInvalid) to throw, or to answer with a hint.
  std::string refusal;
};

// Reads response_format, guided_json, guided_regex, guided_choice, guided_grammar,
// grammar, json_schema and structured_outputs. Of several the first of grammar, JSON
// schema, JSON object, structured_outputs, regex and choice counts. Throws Error
// naming the field; what a schema asks for and can't be had is a refusal.
std::optional<AnswerForm> parse_answer_form(Fields& fields);

// Lark text of a grammar as llama.cpp writes it (rules with ::=).
std::string lark_of_gbnf(const std::string& text);

}  // namespace tandem::api
