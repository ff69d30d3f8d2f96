// What the server writes to stderr. Never prompts, answers or keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::server {

// "debug", "info", "warn", "error" or "off". False: no such level.
bool set_log_level(const std::string& level);

struct RequestLine {
  std::string_view id;
  std::string_view method;
  std::string_view path;
  int status = 0;
  double duration_ms = 0;
  std::string details;  // token counts
};

// Info; probes and /stats are debug.
void log_request(const RequestLine& line);
// Debug: fields of a request that nobody read.
void log_unknown_fields(std::string_view request_id, const std::vector<std::string>& fields);
// Error: an exception that should not have happened.
void log_bug(std::string_view request_id, std::string_view what);
void log_info(std::string_view message);
void log_warning(std::string_view message);

}  // namespace tandem::server
