// What a template can't say, said in the messages themselves.
#pragma once

#include <string>

#include "api/tools.h"

namespace tandem::api {

// For chat templates that know no tools: the tools in the system message, earlier
// calls as the model would write them, and results as messages of the user.
// `messages` and the result are JSON text as of normalise_messages.
std::string describe_tools(const std::string& messages, const ToolOptions& tools);

// With `hint` at the end of the system message.
std::string with_hint(const std::string& messages, const std::string& hint);

}  // namespace tandem::api
