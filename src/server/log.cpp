#include "server/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace tandem::server {
namespace {

// A client chooses path and field names: keep them to one printable line.
std::string printable(std::string_view text) {
  constexpr size_t kShownBytes = 120;
  std::string out(text.substr(0, kShownBytes));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > kShownBytes) out += "...";
  return out;
}

spdlog::logger& logger() {
  static const auto made = [] {
    auto logger = spdlog::stderr_color_mt("tandem");
    logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    return logger;
  }();
  return *made;
}

}  // namespace

bool set_log_level(const std::string& level) {
  for (const char* known : {"debug", "info", "warn", "error", "off"}) {
    if (level != known) continue;
    logger().set_level(spdlog::level::from_str(level));
    return true;
  }
  return false;
}

void log_request(const RequestLine& line) {
  const bool probe = line.path == "/health" || line.path == "/ready" || line.path == "/stats";
  logger().log(probe ? spdlog::level::debug : spdlog::level::info, "{} {} {} {} {:.1f} ms{}{}",
               line.id, line.method, printable(line.path), line.status, line.duration_ms,
               line.details.empty() ? "" : " ", line.details);
}

void log_unknown_fields(std::string_view request_id, const std::vector<std::string>& fields) {
  std::string names;
  for (const auto& field : fields) names += (names.empty() ? "" : ", ") + printable(field);
  logger().debug("{} ignored unknown fields: {}", request_id, names);
}

void log_bug(std::string_view request_id, std::string_view what) {
  logger().error("{} unexpected: {}", request_id, what);
}

void log_info(std::string_view message) { logger().info("{}", message); }
void log_warning(std::string_view message) { logger().warn("{}", message); }

}  // namespace tandem::server
