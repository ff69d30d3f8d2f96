#include "server/connection.h"

#include <boost/beast/http.hpp>
#include <optional>

#include "api/errors.h"
#include "api/sse.h"
#include "server/http_text.h"
#include "server/log.h"

namespace tandem::server {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

namespace {

constexpr size_t kReadBytes = 8 << 10;
constexpr size_t kReadAheadMax = 64 << 10;
constexpr size_t kLingerBytesMax = 4 << 20;
constexpr auto kLingerWaitMax = std::chrono::milliseconds(1'000);
constexpr auto kStopWriteMax = std::chrono::milliseconds(1'000);

auto into(error_code& failed) { return asio::redirect_error(asio::use_awaitable, failed); }

std::string chunk(const std::string& bytes) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

struct Refusal {
  int status = 0;
  std::string message;
};

// What a failed read is answered with; status 0 = nobody is there to be answered.
Refusal refusal_of(const error_code& failed, const HttpOptions& options) {
  if (failed == http::error::header_limit)
    return {431,
            "the header is larger than " + std::to_string(options.header_bytes_max) + " bytes"};
  if (failed == http::error::body_limit || failed == http::error::buffer_overflow)
    return {413, "the body is larger than the limit of " + std::to_string(options.body_bytes_max) +
                     " bytes"};
  if (failed == http::error::end_of_stream || failed == http::error::partial_message) return {};
  if (failed.category() == http::make_error_code(http::error::bad_method).category())
    return {400, "malformed HTTP request: " + failed.message()};
  return {};
}

template <typename Parser>
Refusal check_head(const Parser& parser) {
  const auto& message = parser.get();
  if (message.version() != 10 && message.version() != 11)
    return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  const auto encoding = message[http::field::transfer_encoding];
  if (!encoding.empty() && !beast::iequals(encoding, "chunked"))
    return {400, "Transfer-Encoding must be chunked alone"};
  if (!encoding.empty() && (message.version() == 10 || message.count(http::field::content_length)))
    return {400, "ambiguous framing: Transfer-Encoding beside Content-Length or HTTP/1.0"};
  if (message.count(http::field::transfer_encoding) > 1)
    return {400, "ambiguous framing: Transfer-Encoding given twice"};
  const auto expect = message[http::field::expect];
  if (!expect.empty() && !beast::iequals(expect, "100-continue"))
    return {417, "the only expectation met here is 100-continue"};
  return {};
}

// A coroutine cannot wait inside a catch block: the error becomes a reply here.
Producer::State pump(Producer& producer, std::string& out, HttpReply& failure) {
  try {
    return producer.pump(out);
  } catch (const Error& error) {
    failure = error_reply(error);
  }
  return Producer::State::kDone;
}

}  // namespace

void Activity::begin() {
  std::lock_guard lock(mutex_);
  ++count_;
}

void Activity::end() {
  std::lock_guard lock(mutex_);
  --count_;
  changed_.notify_all();
}

int Activity::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

bool Activity::wait_idle(std::chrono::milliseconds wait_max) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait_max, [&] { return count_ == 0; });
}

namespace {

struct Active {
  explicit Active(Activity& activity) : activity(activity) { activity.begin(); }
  ~Active() { activity.end(); }
  Activity& activity;
};

}  // namespace

Connection::Connection(Socket socket, const HttpOptions& options, const HttpHandler& handler,
                       asio::thread_pool::executor_type workers, Activity& activity)
    : socket_(std::move(socket)),
      options_(options),
      handler_(handler),
      workers_(workers),
      activity_(activity),
      deadline_(socket_.get_executor()),
      news_(socket_.get_executor()) {}

void Connection::start() {
  asio::co_spawn(
      socket_.get_executor(),
      [self = shared_from_this()]() -> asio::awaitable<void> { co_await self->run(); },
      asio::detached);
}

void Connection::stop() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->ended_) return;
    self->stop_ = true;
    self->news_.cancel();
    // Between requests there is nothing to end.
    error_code ignored;
    if (!self->watching_) self->socket_.cancel(ignored);
    self->arm(kStopWriteMax);
  });
}

void Connection::close() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    error_code ignored;
    self->socket_.close(ignored);
    self->news_.cancel();
  });
}

asio::awaitable<void> Connection::run() {
  // (g++ 12 evaluates a co_await on the right of && and || in any case.)
  bool open = true;
  while (open && !stop_) open = co_await serve_one();
  ended_ = true;
  disarm();
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
  socket_.close(ignored);
}

asio::awaitable<bool> Connection::serve_one() {
  if (!co_await wait_for_bytes()) co_return false;
  RequestHead head;
  HttpRequest request;
  if (!co_await read_request(head, request)) co_return false;
  std::optional<Active> active(activity_);
  const auto begun = std::chrono::steady_clock::now();
  auto reply = co_await run_handler(request);
  // HTTP/1.0 has no chunks: the end of a stream is the end of the connection.
  const bool by_closing = head.http_1_0 && reply.producer && reply.producer->streams();
  if (reply.close || stop_ || by_closing) head.keep_alive = false;
  const bool written = co_await write_reply(head, request, reply);
  log(request, reply, written, begun);
  reply.producer.reset();
  active.reset();
  if (!written) co_return false;
  if (!head.keep_alive) co_await linger();
  co_return head.keep_alive;
}

asio::awaitable<bool> Connection::wait_for_bytes() {
  if (buffer_.size() > 0) co_return true;
  arm(options_.idle_wait_max);
  error_code failed;
  const size_t count = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), into(failed));
  buffer_.commit(count);
  co_return !failed;
}

asio::awaitable<bool> Connection::read_request(RequestHead& head, HttpRequest& request) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<uint32_t>(options_.header_bytes_max));
  parser.body_limit(options_.body_bytes_max);
  error_code failed;
  arm(options_.header_wait_max);
  co_await http::async_read_header(socket_, buffer_, parser, into(failed));
  if (timed_out_) co_return co_await refuse(408, "the request's header did not arrive in time");
  if (!failed) {
    if (auto bad = check_head(parser); bad.status)
      co_return co_await refuse(bad.status, bad.message);
    arm(options_.body_wait_max);
    const bool expects = !parser.get()[http::field::expect].empty();
    if (expects && buffer_.size() == 0 && !parser.is_done()) {
      const bool written = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
      if (!written) co_return false;
    }
    co_await http::async_read(socket_, buffer_, parser, into(failed));
    if (timed_out_) co_return co_await refuse(408, "the request's body did not arrive in time");
  }
  if (failed) {
    const auto bad = refusal_of(failed, options_);
    if (bad.status == 0) co_return false;
    co_return co_await refuse(bad.status, bad.message);
  }
  disarm();
  auto message = parser.release();
  head = {.method = std::string(message.method_string()),
          .http_1_0 = message.version() == 10,
          .keep_alive = message.keep_alive()};
  request.id = new_request_id();
  request.method = head.method;
  if (!decode_target(message.target(), request.path))
    co_return co_await refuse(400, "the request target is not a valid path");
  for (const auto& field : message)
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  request.body = std::move(message.body());
  co_return true;
}

asio::awaitable<HttpReply> Connection::run_handler(const HttpRequest& request) {
  co_return co_await asio::co_spawn(
      workers_, [this, &request]() -> asio::awaitable<HttpReply> { co_return handler_(request); },
      asio::use_awaitable);
}

asio::awaitable<bool> Connection::write_reply(const RequestHead& head, const HttpRequest& request,
                                              HttpReply& reply) {
  if (reply.producer) co_return co_await produce(head, request, reply);
  auto bytes = head_text(head, request, reply, BodyLength{reply.body.size()});
  if (head.method != "HEAD") bytes += reply.body;
  co_return co_await write(std::move(bytes));
}

void Connection::log(const HttpRequest& request, const HttpReply& reply, bool written,
                     std::chrono::steady_clock::time_point begun) const {
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begun;
  constexpr int kClientGone = 499;
  log_request({.id = request.id,
               .method = request.method,
               .path = request.path,
               .status = written ? reply.status : kClientGone,
               .duration_ms = spent.count(),
               .details = reply.producer ? reply.producer->summary() : std::string()});
}

asio::awaitable<bool> Connection::produce(const RequestHead& head, const HttpRequest& request,
                                          HttpReply& reply) {
  gone_ = end_watch_ = stop_told_ = woken_ = false;
  watching_ = true;
  asio::co_spawn(
      socket_.get_executor(),
      [self = shared_from_this()]() -> asio::awaitable<void> { co_await self->watch(); },
      asio::detached);
  set_waker(*reply.producer);
  const bool written = co_await pump_reply(head, request, reply);
  reply.producer->set_waker({});
  co_await end_watch();
  co_return written && !gone_;
}

asio::awaitable<bool> Connection::pump_reply(const RequestHead& head, const HttpRequest& request,
                                             HttpReply& reply) {
  auto& producer = *reply.producer;
  const bool streams = producer.streams();
  const bool chunked = streams && !head.http_1_0;
  bool begun = false;
  std::string body;
  while (true) {
    if (gone_) co_return false;
    if (stop_ && !std::exchange(stop_told_, true)) producer.stop();
    woken_ = false;
    HttpReply failure;
    const auto state = pump(producer, body, failure);
    if (!failure.body.empty()) {
      reply.status = failure.status;
      co_return co_await write(head_text(head, request, failure, BodyLength{failure.body.size()}) +
                               failure.body);
    }
    if (!streams) {
      if (state == Producer::State::kDone)
        co_return co_await write(head_text(head, request, reply, BodyLength{body.size()}) + body);
      if (state == Producer::State::kWaiting) co_await wait_for_news(options_.heartbeat);
      continue;
    }
    if (!body.empty()) {
      std::string bytes;
      if (!std::exchange(begun, true)) bytes = head_text(head, request, reply, BodyLength{chunked});
      bytes += chunked ? chunk(body) : body;
      body.clear();
      if (!co_await write(std::move(bytes))) co_return false;
    }
    if (state == Producer::State::kDone) break;
    if (state == Producer::State::kMore) continue;
    const bool news = co_await wait_for_news(options_.heartbeat);
    if (!news) body = api::kSseHeartbeat;
  }
  if (!chunked) co_return true;
  co_return co_await write("0\r\n\r\n");
}

asio::awaitable<bool> Connection::write(std::string bytes) {
  arm(stop_ ? Milliseconds(kStopWriteMax) : options_.write_wait_max);
  error_code failed;
  co_await asio::async_write(socket_, asio::buffer(bytes), into(failed));
  if (!stop_) disarm();
  co_return !failed;
}

asio::awaitable<bool> Connection::refuse(int status, const std::string& message) {
  HttpReply reply;
  reply.status = status;
  reply.body = api::openai_error_body(message, "invalid_request_error", "bad_request");
  RequestHead head;
  auto text = head_text(head, {}, reply, BodyLength{reply.body.size()}) + reply.body;
  if (co_await write(std::move(text))) co_await linger();
  co_return false;
}

asio::awaitable<void> Connection::linger() {
  error_code failed;
  socket_.shutdown(asio::socket_base::shutdown_send, failed);
  arm(kLingerWaitMax);
  buffer_.clear();
  for (size_t read = 0; !failed && read < kLingerBytesMax;)
    read += co_await socket_.async_read_some(buffer_.prepare(kReadBytes), into(failed));
}

asio::awaitable<void> Connection::watch() {
  error_code failed;
  while (!end_watch_ && !failed && buffer_.size() < kReadAheadMax) {
    const size_t count =
        co_await socket_.async_read_some(buffer_.prepare(kReadBytes), into(failed));
    buffer_.commit(count);
  }
  watching_ = false;
  if (failed && !end_watch_) {
    gone_ = true;
    socket_.cancel(failed);
  }
  news_.cancel();
}

asio::awaitable<void> Connection::end_watch() {
  end_watch_ = true;
  error_code ignored;
  while (watching_) {
    socket_.cancel(ignored);
    news_.expires_after(options_.heartbeat);
    co_await news_.async_wait(into(ignored));
  }
}

asio::awaitable<bool> Connection::wait_for_news(Milliseconds wait_max) {
  if (woken_ || gone_ || (stop_ && !stop_told_)) co_return true;
  news_.expires_after(wait_max);
  error_code cancelled;
  co_await news_.async_wait(into(cancelled));
  co_return static_cast<bool>(cancelled);
}

void Connection::set_waker(Producer& producer) {
  // Many events make one wake-up: the flag falls when the strand has seen it.
  auto posted = std::make_shared<std::atomic<bool>>(false);
  producer.set_waker([weak = weak_from_this(), posted] {
    auto self = weak.lock();
    if (!self || posted->exchange(true)) return;
    asio::post(self->socket_.get_executor(), [self, posted] {
      *posted = false;
      self->woken_ = true;
      self->news_.cancel();
    });
  });
}

void Connection::arm(Milliseconds wait_max) {
  timed_out_ = false;
  deadline_.expires_after(wait_max);
  deadline_.async_wait([self = shared_from_this(), turn = ++deadline_turn_](error_code cancelled) {
    if (cancelled || turn != self->deadline_turn_) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void Connection::disarm() {
  ++deadline_turn_;
  deadline_.cancel();
}

}  // namespace tandem::server
