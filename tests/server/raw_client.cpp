#include "server/raw_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace tandem::server {
namespace {

constexpr int kWaitSecondsMax = 10;

int connected(int family, const sockaddr* address, socklen_t size) {
  const int fd = ::socket(family, SOCK_STREAM, 0);
  if (fd < 0 || ::connect(fd, address, size) != 0) throw std::runtime_error("cannot connect");
  const timeval wait{.tv_sec = kWaitSecondsMax};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  return fd;
}

}  // namespace

RawClient::RawClient(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socket_ = connected(AF_INET, reinterpret_cast<sockaddr*>(&address), sizeof address);
}

RawClient::RawClient(const std::string& unix_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_path.c_str(), sizeof address.sun_path - 1);
  socket_ = connected(AF_UNIX, reinterpret_cast<sockaddr*>(&address), sizeof address);
}

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed: the test reads why
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool RawClient::read_some() {
  char bytes[16384];
  const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
  closed_ = count == 0;
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string RawClient::read_until(std::string_view mark) {
  size_t found;
  while ((found = buffer_.find(mark)) == std::string::npos)
    if (!read_some()) return std::exchange(buffer_, {});
  const auto end = found + mark.size();
  auto text = buffer_.substr(0, end);
  buffer_.erase(0, end);
  return text;
}

std::string RawClient::read_all(bool* closed) {
  while (read_some()) {
  }
  if (closed) *closed = closed_;
  return std::exchange(buffer_, {});
}

std::string RawClient::read_reply() {
  auto reply = read_until("\r\n\r\n");
  const auto length = header_of(reply, "Content-Length");
  const size_t body = length.empty() ? 0 : std::stoul(length);
  while (buffer_.size() < body)
    if (!read_some()) break;
  reply += buffer_.substr(0, body);
  buffer_.erase(0, body);
  return reply;
}

void RawClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

std::string post(std::string_view path, std::string_view body, std::string_view header) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(header) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

int status_of(std::string_view reply) {
  return reply.size() < 12 ? 0 : std::stoi(std::string(reply.substr(9, 3)));
}

std::string body_of(std::string_view reply) {
  const auto end = reply.find("\r\n\r\n");
  return end == std::string_view::npos ? "" : std::string(reply.substr(end + 4));
}

std::string header_of(std::string_view reply, std::string_view name) {
  const auto mark = "\r\n" + std::string(name) + ": ";
  const auto begin = reply.find(mark);
  if (begin == std::string_view::npos || begin > reply.find("\r\n\r\n")) return {};
  const auto value = begin + mark.size();
  return std::string(reply.substr(value, reply.find("\r\n", value) - value));
}

}  // namespace tandem::server
