// A request and its reply between the HTTP connection and the handlers. Nothing
// here knows Beast, so that handlers compile quickly and run without a socket.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tandem::server {

struct HttpRequest {
  std::string id;      // for logs and for the x-request-id header
  std::string method;  // "GET"
  std::string path;    // decoded, without the query
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;

  // Empty when absent; names compare without case.
  std::string_view header(std::string_view name) const;
};

// The body of a reply that is made while the engine works. The connection calls
// everything but the waker from its strand.
class Producer {
 public:
  enum class State : uint8_t { kWaiting, kMore, kDone };

  virtual ~Producer() = default;  // stops the work behind it

  // Appends what can be sent now, without blocking. kMore: call again once that
  // is written. Throws Error only before it has appended its first byte.
  virtual State pump(std::string& out) = 0;

  // `wake` is called, from any thread, when pump may have more; {} ends that.
  virtual void set_waker(std::function<void()> wake) = 0;

  // The reply must end now: from here on pump gives an error or its last bytes.
  virtual void stop() = 0;

  // True: sent piece by piece, as events. False: one body, sent when done.
  virtual bool streams() const = 0;

  // For the log line, e.g. "prompt=12 generated=30"; never text of the client.
  virtual std::string summary() const = 0;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::unique_ptr<Producer> producer;  // in place of body
  bool close = false;                  // end the connection after it
};

// Runs on a worker thread. May throw Error; anything else is a bug, answered 500.
using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

HttpReply error_reply(const Error& error);

}  // namespace tandem::server
