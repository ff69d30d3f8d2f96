#include "server/http.h"

#include <algorithm>
#include <cctype>

#include "api/errors.h"

namespace tandem::server {

std::string_view HttpRequest::header(std::string_view name) const {
  auto same = [&](const auto& header) {
    return std::equal(
        header.first.begin(), header.first.end(), name.begin(), name.end(),
        [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  auto it = std::find_if(headers.begin(), headers.end(), same);
  return it == headers.end() ? std::string_view() : std::string_view(it->second);
}

HttpReply error_reply(const Error& error) {
  HttpReply reply;
  reply.status = api::wire_error(error.code()).http_status;
  reply.body = api::openai_error_body(error);
  if (error.code() == ErrorCode::kQueueFull || error.code() == ErrorCode::kUnavailable)
    reply.headers.emplace_back("Retry-After", "1");
  if (error.code() == ErrorCode::kUnauthorized)
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace tandem::server
