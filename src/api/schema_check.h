// Looks over a JSON schema before a grammar is made of it.
#pragma once

#include <string>

#include "api/json_text.h"

namespace tandem::api {

// Throws Error(kInvalid) that names the place (a JSON pointer within the schema,
// behind `path`) and the keyword: a keyword that cannot be enforced, a type that
// there is none of, an empty enum, a reference that leads nowhere, a schema that no
// finite value satisfies. `path` is the request field.
void check_schema(const Json& schema, const std::string& path);

}  // namespace tandem::api
