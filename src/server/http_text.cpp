#include "server/http_text.h"

#include <boost/beast/http/status.hpp>

#include "server/connection.h"
#include "server/random_id.h"

namespace tandem::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string reason(int status) {
  if (status == 499) return "Client Closed Request";
  const auto text = boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status));
  return std::string(text);
}

}  // namespace

std::string head_text(const RequestHead& head, const HttpRequest& request, const HttpReply& reply,
                      BodyLength length) {
  const bool by_closing = !length.known && !length.chunked;
  std::string text = head.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  text += std::to_string(reply.status) + " " + reason(reply.status) + "\r\n";
  text += "Server: tandem\r\nContent-Type: " + reply.content_type + "\r\n";
  if (!request.id.empty()) text += "X-Request-Id: " + request.id + "\r\n";
  for (const auto& [name, value] : reply.headers) text += name + ": " + value + "\r\n";
  if (length.known) text += "Content-Length: " + std::to_string(length.bytes) + "\r\n";
  if (length.chunked) text += "Transfer-Encoding: chunked\r\n";
  if (!head.keep_alive || by_closing)
    text += "Connection: close\r\n";
  else if (head.http_1_0)
    text += "Connection: keep-alive\r\n";
  return text + "\r\n";
}

std::string new_request_id() { return "req-" + random_hex(); }

bool decode_target(std::string_view target, std::string& path) {
  if (const auto scheme = target.find("://");
      scheme != std::string_view::npos && !target.starts_with('/')) {
    const auto slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  target = target.substr(0, target.find_first_of("?#"));
  if (!target.starts_with('/')) return false;
  path.clear();
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    if (i + 2 >= target.size()) return false;
    const int high = hex_digit(target[i + 1]), low = hex_digit(target[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return false;
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

}  // namespace tandem::server
