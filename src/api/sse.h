// Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html
#pragma once

#include <string>
#include <string_view>

namespace tandem::api {

// One line of data, no event name. `data` must not hold a line feed.
inline void append_sse(std::string_view data, std::string& out) {
  out.append("data: ").append(data).append("\n\n");
}

// Ignored by clients; keeps proxies from closing a silent stream.
inline constexpr std::string_view kSseHeartbeat = ": waiting\n\n";

}  // namespace tandem::api
