#include "server/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "server/connection.h"

namespace tandem::server {
namespace {

using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<Protocol>;

constexpr auto kAcceptRetry = std::chrono::milliseconds(50);
constexpr auto kStopPoll = std::chrono::milliseconds(10);
constexpr auto kStopWaitMax = std::chrono::milliseconds(2'000);

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw Error(ErrorCode::kInvalid, "cannot serve on " + address + ": " + why);
}

Protocol::endpoint tcp_endpoint(asio::io_context& io, const HttpOptions& options) {
  error_code failed;
  const auto address = asio::ip::make_address(options.host, failed);
  if (!failed) return asio::ip::tcp::endpoint(address, options.port);
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), failed);
  if (failed || found.empty())
    refuse(options.host, "no such host; give an address such as 127.0.0.1");
  for (const auto& entry : found)
    if (entry.endpoint().address().is_v4()) return entry.endpoint();
  return found.begin()->endpoint();
}

// A socket file that nobody listens on is left over from a crash.
void remove_stale_socket(asio::io_context& io, const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return;
  if (!S_ISSOCK(info.st_mode)) refuse("unix:" + path, "the path exists and is not a socket");
  asio::local::stream_protocol::socket probe(io);
  error_code failed;
  probe.connect(asio::local::stream_protocol::endpoint(path), failed);
  if (!failed) refuse("unix:" + path, "another server listens there");
  unlink(path.c_str());
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, HttpHandler handler)
      : options_(options),
        handler_(std::move(handler)),
        acceptor_(io_),
        workers_(options.worker_threads) {
    if (options_.unix_path.empty())
      bind_tcp();
    else
      bind_unix();
  }

  ~Impl() {
    stop();
    io_.stop();
    for (auto& thread : threads_) thread.join();
    workers_.join();
    if (!options_.unix_path.empty()) unlink(options_.unix_path.c_str());
  }

  void listen() {
    error_code failed;
    acceptor_.listen(asio::socket_base::max_listen_connections, failed);
    if (failed) refuse(address_, failed.message());
    asio::co_spawn(io_, accept_loop(), asio::detached);
    for (int i = 0; i < options_.io_threads; ++i) threads_.emplace_back([this] { io_.run(); });
  }

  const std::string& address() const { return address_; }
  int active_requests() const { return activity_.count(); }
  bool wait_idle(std::chrono::milliseconds wait_max) { return activity_.wait_idle(wait_max); }

  void stop() {
    if (stopped_.exchange(true)) return;
    asio::post(io_, [this] { acceptor_.close(); });
    for (const auto& connection : open_connections()) connection->stop();
    // Replies get a moment to write their end.
    const auto deadline = std::chrono::steady_clock::now() + kStopWaitMax;
    while (!open_connections().empty() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(kStopPoll);
    for (const auto& connection : open_connections()) connection->close();
  }

 private:
  void bind_tcp() {
    const auto endpoint = tcp_endpoint(io_, options_);
    address_ = options_.host + ":" + std::to_string(options_.port);
    open_and_bind(endpoint);
    asio::ip::tcp::endpoint local;
    const auto bound = acceptor_.local_endpoint();
    std::memcpy(local.data(), bound.data(), bound.size());
    const bool v6 = options_.host.find(':') != std::string::npos;
    address_ = "http://" + (v6 ? "[" + options_.host + "]" : options_.host) + ":" +
               std::to_string(local.port());
  }

  void bind_unix() {
    address_ = "unix:" + options_.unix_path;
    if (options_.unix_path.size() > 100) refuse(address_, "the path is longer than 100 bytes");
    remove_stale_socket(io_, options_.unix_path);
    open_and_bind(asio::local::stream_protocol::endpoint(options_.unix_path));
    chmod(options_.unix_path.c_str(), S_IRUSR | S_IWUSR);
  }

  void open_and_bind(const Protocol::endpoint& endpoint) {
    error_code failed;
    acceptor_.open(endpoint.protocol(), failed);
    if (!failed && options_.unix_path.empty())
      acceptor_.set_option(asio::socket_base::reuse_address(true), failed);
    if (!failed) acceptor_.bind(endpoint, failed);
    if (failed == asio::error::address_in_use)
      refuse(address_, "the port is in use; give another one, or --port 0 for a free one");
    if (failed) refuse(address_, failed.message());
  }

  asio::awaitable<void> accept_loop() {
    while (!stopped_) {
      error_code failed;
      auto strand = asio::make_strand(io_);
      auto socket = co_await acceptor_.async_accept(
          strand, asio::redirect_error(asio::use_awaitable, failed));
      if (failed == asio::error::operation_aborted || failed == asio::error::bad_descriptor)
        co_return;
      if (failed) {  // out of descriptors, most likely: others will close
        asio::steady_timer pause(io_, kAcceptRetry);
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, failed));
        continue;
      }
      start(Socket(std::move(socket)));
    }
  }

  void start(Socket socket) {
    error_code ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(std::move(socket), options_, handler_,
                                                   workers_.get_executor(), activity_);
    {
      std::lock_guard lock(mutex_);
      std::erase_if(connections_, [](const auto& known) { return known.expired(); });
      if (connections_.size() >= static_cast<size_t>(options_.connections_max)) return;
      connections_.push_back(connection);
    }
    connection->start();
  }

  std::vector<std::shared_ptr<Connection>> open_connections() {
    std::vector<std::shared_ptr<Connection>> open;
    std::lock_guard lock(mutex_);
    for (const auto& known : connections_)
      if (auto connection = known.lock()) open.push_back(std::move(connection));
    return open;
  }

  const HttpOptions options_;
  const HttpHandler handler_;
  Activity activity_;
  asio::io_context io_;
  Acceptor acceptor_;
  asio::thread_pool workers_;
  std::vector<std::thread> threads_;
  std::string address_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Connection>> connections_;
};

HttpServer::HttpServer(const HttpOptions& options, HttpHandler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;
void HttpServer::listen() { impl_->listen(); }
std::string HttpServer::address() const { return impl_->address(); }
int HttpServer::active_requests() const { return impl_->active_requests(); }
bool HttpServer::wait_idle(std::chrono::milliseconds wait_max) {
  return impl_->wait_idle(wait_max);
}
void HttpServer::stop() { impl_->stop(); }

}  // namespace tandem::server
