// Chat messages from the wire in the one shape that chat templates get.
#pragma once

#include <string>

#include "api/json_text.h"

namespace tandem::api {

// Returns the JSON text of the array. Checks roles and contents and flattens them: text parts are
// joined, a null or absent content is empty text where the role allows it, "developer" is "system",
// and tool-call arguments sent as JSON text become objects. Throws Error naming the place
// ("messages[2].content[0].type"); media parts are kUnsupported.
std::string normalise_messages(const Json& messages, const std::string& path);

}  // namespace tandem::api
