// The table of routes, and the one place where a request becomes a reply: API
// key, route, method, parse, handler, and every Error as an error reply.
#pragma once

#include "server/app.h"
#include "server/http.h"

namespace tandem::server {

// Never throws. Any worker thread.
HttpReply answer(const HttpRequest& request, App& app) noexcept;

}  // namespace tandem::server
