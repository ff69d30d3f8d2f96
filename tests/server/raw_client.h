// A socket that sends and reads exact bytes, for tests of the HTTP server.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tandem::server {

class RawClient {
 public:
  explicit RawClient(int port);
  explicit RawClient(const std::string& unix_path);
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes);
  // Everything up to and with `mark`; what came so far if the time is up or the
  // server closes.
  std::string read_until(std::string_view mark);
  // Everything until the server closes; `closed` tells whether it did in time.
  std::string read_all(bool* closed = nullptr);
  // One reply: header and the body that its Content-Length announces.
  std::string read_reply();
  void close();

 private:
  // False when the server has closed or the time is up.
  bool read_some();

  int socket_ = -1;
  bool closed_ = false;
  std::string buffer_;
};

std::string post(std::string_view path, std::string_view body, std::string_view header = {});
// Of a reply read as text.
int status_of(std::string_view reply);
std::string body_of(std::string_view reply);
std::string header_of(std::string_view reply, std::string_view name);

}  // namespace tandem::server
