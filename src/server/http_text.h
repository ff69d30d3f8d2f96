// Text of replies and request targets.
#pragma once

#include <string>
#include <string_view>

#include "server/http.h"

namespace tandem::server {

struct RequestHead;

// How a reply's end is told: by its length, or as chunks (false: by closing).
struct BodyLength {
  explicit BodyLength(size_t bytes) : known(true), bytes(bytes) {}
  explicit BodyLength(bool chunked) : chunked(chunked) {}
  bool known = false;
  size_t bytes = 0;
  bool chunked = false;
};

// Status line and header, with the empty line.
std::string head_text(const RequestHead& head, const HttpRequest& request, const HttpReply& reply,
                      BodyLength length);

// "req-" and 16 hex digits.
std::string new_request_id();

// Path of a request target, percent-decoded, without query or origin. False
// when it is not valid.
bool decode_target(std::string_view target, std::string& path);

}  // namespace tandem::server
