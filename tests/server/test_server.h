// A server on a free port with a scripted model behind it.
#pragma once

#include <cstdint>
#include <string>

#include "server/app.h"
#include "server/http_server.h"
#include "server/raw_client.h"
#include "server/routes.h"
#include "server/scripted_model.h"

namespace tandem::server {

inline HttpOptions quick_options() {
  HttpOptions options;
  options.port = 0;
  return options;
}

struct TestServer {
  explicit TestServer(ScriptedModel::Script script = {}, HttpOptions options = quick_options())
      : model(std::move(script)),
        http(options, [this](const HttpRequest& request) { return answer(request, app); }) {
    http.listen();
    const auto address = http.address();
    if (options.unix_path.empty()) port = std::stoi(address.substr(address.rfind(':') + 1));
  }

  // Sends one request on a connection of its own and reads the reply.
  std::string ask(std::string_view request) {
    RawClient client(port);
    client.send(request);
    return client.read_reply();
  }

  ScriptedModel model;
  App app{.model = model};
  HttpServer http;
  int port = 0;
};

// A script: the row says `text` and stops.
inline ScriptedModel::Script says(std::string text) {
  return [text](ScriptedRow& row) {
    row.push_text(text);
    row.end();
  };
}

inline constexpr const char* kChat = R"({"messages":[{"role":"user","content":"hi"}]})";
inline constexpr const char* kChatStream =
    R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})";

// Polls until `condition` holds; false when it does not in time.
template <typename Condition>
bool eventually(Condition&& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace tandem::server
