// HTTP/1.1 over TCP or a Unix socket: framing, limits, time-outs, streaming.
//
// A few I/O threads run one strand for each connection; handlers run on a small
// worker pool. A client that goes away stops its reply's producer at once. A
// client that reads slowly is waited for: its producer is not pumped meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/http.h"

namespace tandem::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;   // 0 = a free one
  std::string unix_path;  // in place of host and port
  int io_threads = 2;
  int worker_threads = 2;
  int connections_max = 1024;
  size_t header_bytes_max = 64 << 10;
  size_t body_bytes_max = 32 << 20;
  std::chrono::milliseconds header_wait_max{10'000};  // from a request's first byte
  std::chrono::milliseconds body_wait_max{120'000};
  std::chrono::milliseconds idle_wait_max{75'000};    // between requests
  std::chrono::milliseconds write_wait_max{120'000};  // for a reader that stands still
  std::chrono::milliseconds heartbeat{15'000};        // silence of a stream
};

class HttpServer {
 public:
  // Takes the address, but does not listen yet. Throws Error(kInvalid) when it is
  // in use, not ours or not an address.
  HttpServer(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();  // closes everything
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void listen();

  // "http://127.0.0.1:8080" or "unix:/tmp/tandem.sock".
  std::string address() const;

  // Requests that are being answered now.
  int active_requests() const;

  // Waits until no request is being answered; false when the time was up first.
  bool wait_idle(std::chrono::milliseconds wait_max);

  // Ends running replies (see Producer::stop), gives them a moment to leave, and
  // closes every connection.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::server
