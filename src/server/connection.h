// One client connection: requests in, replies out, in order. Internal to the
// server; includes Asio, so only its own .cpp files include it.
#pragma once

#include <boost/asio.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "server/http_server.h"

namespace tandem::server {

namespace asio = boost::asio;
using Protocol = asio::generic::stream_protocol;
using Socket = asio::basic_stream_socket<Protocol>;

// How many requests are being answered.
class Activity {
 public:
  void begin();
  void end();
  int count() const;
  bool wait_idle(std::chrono::milliseconds wait_max);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

struct RequestHead {
  std::string method;
  bool http_1_0 = false;
  bool keep_alive = false;
};

// Everything but start, stop and close runs on the socket's strand.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, const HttpOptions& options, const HttpHandler& handler,
             asio::thread_pool::executor_type workers, Activity& activity);

  void start();
  void stop();   // end the running reply and close; any thread
  void close();  // at once; any thread

 private:
  using Milliseconds = std::chrono::milliseconds;

  asio::awaitable<void> run();
  // Reads one request and answers it. False: close the connection.
  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> wait_for_bytes();
  // False after it has answered with an error, or the client has gone.
  asio::awaitable<bool> read_request(RequestHead& head, HttpRequest& request);
  asio::awaitable<HttpReply> run_handler(const HttpRequest& request);

  // False: close the connection.
  asio::awaitable<bool> write_reply(const RequestHead& head, const HttpRequest& request,
                                    HttpReply& reply);
  // As it is logged: `reply` may have become an error on the way.
  void log(const HttpRequest& request, const HttpReply& reply, bool written,
           std::chrono::steady_clock::time_point begun) const;
  asio::awaitable<bool> produce(const RequestHead& head, const HttpRequest& request,
                                HttpReply& reply);
  asio::awaitable<bool> pump_reply(const RequestHead& head, const HttpRequest& request,
                                   HttpReply& reply);
  asio::awaitable<bool> write(std::string bytes);
  asio::awaitable<bool> refuse(int status, const std::string& message);
  // Lets the client read our last reply before it sees the connection closed.
  asio::awaitable<void> linger();

  // Reads ahead while a reply is produced, to notice a client that goes away.
  asio::awaitable<void> watch();
  asio::awaitable<void> end_watch();
  // Until something happens: bytes to send, client gone, stop, or time up (false).
  asio::awaitable<bool> wait_for_news(Milliseconds wait_max);
  void set_waker(Producer& producer);

  void arm(Milliseconds wait_max);
  void disarm();

  Socket socket_;
  const HttpOptions& options_;
  const HttpHandler& handler_;
  asio::thread_pool::executor_type workers_;
  Activity& activity_;
  boost::beast::flat_buffer buffer_;
  asio::steady_timer deadline_;
  asio::steady_timer news_;
  uint64_t deadline_turn_ = 0;
  bool timed_out_ = false;
  bool woken_ = false;
  bool watching_ = false;
  bool end_watch_ = false;
  bool gone_ = false;
  bool stop_ = false;
  bool ended_ = false;
  bool stop_told_ = false;
};

}  // namespace tandem::server
