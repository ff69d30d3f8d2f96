#pragma once

#include "server/http.h"

namespace tandem::server {

// Compares the key of "Authorization: Bearer KEY" or "x-api-key: KEY" with ours in
// a time that does not depend on where they differ. Throws Error(kUnauthorized).
// An empty `api_key` lets everybody in.
void check_api_key(const HttpRequest& request, const std::string& api_key);

}  // namespace tandem::server
