#include <doctest/doctest.h>

#include <thread>

#include "server/test_server.h"

using namespace tandem;
using namespace tandem::server;

namespace {

constexpr std::string_view kChatPath = "/v1/chat/completions";

}  // namespace

TEST_CASE("a stream begins with its first event and ends with [DONE]") {
  TestServer server;
  RawClient client(server.port);
  client.send(post(kChatPath, kChatStream));
  auto row = server.model.row(0);
  row->push_text("one");
  const auto head = client.read_until("\r\n\r\n");
  CHECK(status_of(head) == 200);
  CHECK(header_of(head, "Content-Type").starts_with("text/event-stream"));
  CHECK(client.read_until("one").find("\"role\":\"assistant\"") != std::string::npos);
  row->end();
  CHECK(client.read_until("0\r\n\r\n").find("data: [DONE]\n\n") != std::string::npos);
}

TEST_CASE("a client that goes away frees its row, streaming or not") {
  TestServer server;
  for (const char* body : {kChatStream, kChat}) {
    const auto number = static_cast<size_t>(server.app.requests.load());
    auto client = std::make_unique<RawClient>(server.port);
    client->send(post(kChatPath, body));
    auto row = server.model.row(number);
    row->push_text("one");
    CHECK_FALSE(row->cancelled);
    client.reset();
    CHECK(eventually([&] { return row->cancelled.load(); }));
  }
  CHECK(eventually([&] { return server.http.active_requests() == 0; }));
}

TEST_CASE("an error before the first token is plain JSON with its status, streaming too") {
  TestServer server([](ScriptedRow& row) { row.fail(ErrorCode::kPoolExhausted, "no pages"); });
  for (const char* body : {kChatStream, kChat}) {
    const auto reply = server.ask(post(kChatPath, body));
    CHECK(status_of(reply) == 503);
    CHECK(header_of(reply, "Content-Type") == "application/json");
    CHECK(body_of(reply).find("no pages") != std::string::npos);
  }
}

TEST_CASE("an error in the middle is one error event and the end of the stream") {
  TestServer server;
  RawClient client(server.port);
  client.send(post(kChatPath, kChatStream));
  auto row = server.model.row(0);
  row->push_text("one");
  CHECK(status_of(client.read_until("one")) == 200);
  row->fail(ErrorCode::kInternal, "lost it");
  const auto reply = client.read_until("0\r\n\r\n");
  CHECK(reply.find("lost it") != std::string::npos);
  CHECK(reply.find("[DONE]") == std::string::npos);
  CHECK(reply.ends_with("0\r\n\r\n"));
}

TEST_CASE("a bad parameter with stream true is plain 400 JSON") {
  TestServer server(says("hello"));
  for (const char* more : {"\"n\":0", "\"n\":-1", "\"logprobs\":true,\"top_logprobs\":99"}) {
    const auto reply = server.ask(post(
        kChatPath, std::string(R"({"stream":true,"messages":[{"role":"user","content":"hi"}],)") +
                       more + "}"));
    CHECK(status_of(reply) == 400);
    CHECK(header_of(reply, "Content-Type") == "application/json");
  }
}

TEST_CASE("a silent stream gets heartbeats") {
  auto options = quick_options();
  options.heartbeat = std::chrono::milliseconds(30);
  TestServer server({}, options);
  RawClient client(server.port);
  client.send(post(kChatPath, kChatStream));
  CHECK(client.read_until(": waiting\n\n").find("data:") == std::string::npos);
  server.model.row(0)->push_text("late");
  CHECK(client.read_until("late").find("late") != std::string::npos);
}

TEST_CASE("a client that does not read holds back its own row only") {
  TestServer server;
  RawClient slow(server.port);
  slow.send(post(kChatPath, kChatStream));
  auto row = server.model.row(0);
  Event big;
  big.text = std::string(1 << 20, 'x');
  for (int i = 0; i < 32; ++i) row->push(big);
  // The kernel's buffers fill, and then events stay unread in the row.
  CHECK(eventually([&] { return row->unread() < 32; }));
  RawClient other(server.port);
  other.send(post(kChatPath, kChat));
  server.model.row(1)->push_text("fine");
  server.model.row(1)->end();
  CHECK(body_of(other.read_reply()).find("fine") != std::string::npos);
  CHECK(row->unread() > 0);
}

TEST_CASE("64 streams at once each get their own text, in order") {
  TestServer server([](ScriptedRow& row) {
    const auto name = std::string(row.request.prompt.begin(), row.request.prompt.end());
    for (int i = 0; i < 20; ++i) row.push_text("<" + name + ":" + std::to_string(i) + ">");
    row.end();
  });
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port));
    clients.back()->send(post(
        kChatPath,
        R"({"stream":true,"messages":[{"role":"user","content":"c)" + std::to_string(i) + "\"}]}"));
  }
  for (int i = 0; i < 64; ++i) {
    const auto reply = clients[i]->read_until("[DONE]");
    size_t at = 0;
    for (int k = 0; k < 20 && at != std::string::npos; ++k)
      at = reply.find("<c" + std::to_string(i) + ":" + std::to_string(k) + ">", at);
    CHECK(at != std::string::npos);
  }
}

TEST_CASE("stop ends a running stream with an error event and closes") {
  TestServer server;
  RawClient client(server.port);
  client.send(post(kChatPath, kChatStream));
  server.model.row(0)->push_text("one");
  client.read_until("one");
  std::thread stopping([&] { server.http.stop(); });
  bool closed = false;
  const auto rest = client.read_all(&closed);
  stopping.join();
  CHECK(closed);
  CHECK(rest.find("shutting down") != std::string::npos);
  CHECK(rest.ends_with("0\r\n\r\n"));
}

TEST_CASE("n choices stream side by side under their indices") {
  TestServer server([](ScriptedRow& row) {
    row.push_text("choice" + std::to_string(row.request.choice));
    row.end();
  });
  RawClient client(server.port);
  client.send(post("/v1/completions", R"({"prompt":"a","n":2,"stream":true})"));
  const auto reply = client.read_until("[DONE]");
  CHECK(reply.find(R"({"index":0,"text":"choice0")") != std::string::npos);
  CHECK(reply.find(R"({"index":1,"text":"choice1")") != std::string::npos);
}
