#include <doctest/doctest.h>

#include "server/test_server.h"

using namespace tandem;
using namespace tandem::server;

namespace {

constexpr std::string_view kChatPath = "/v1/chat/completions";

std::string chunked(std::string_view body, std::string_view tail = "0\r\n\r\n") {
  std::string bytes = "POST " + std::string(kChatPath) +
                      " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (char byte : body) bytes += "1;note=\"x\"\r\n" + std::string(1, byte) + "\r\n";
  return bytes + std::string(tail);
}

}  // namespace

TEST_CASE("a chunked body in 1-byte chunks with extensions and trailers equals a plain one") {
  TestServer server(says("hello"));
  auto plain = server.ask(post(kChatPath, kChat));
  auto pieces = server.ask(chunked(kChat, "0\r\nX-Trailer: y\r\n\r\n"));
  CHECK(status_of(plain) == 200);
  CHECK(status_of(pieces) == 200);
  CHECK(body_of(plain).find("\"hello\"") != std::string::npos);
  CHECK(body_of(pieces).find("\"hello\"") != std::string::npos);
}

TEST_CASE("ambiguous framing is 400, closes, and later bytes never run as a request") {
  const std::string smuggled = "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string start = "POST " + std::string(kChatPath) + " HTTP/1.1\r\nHost: x\r\n";
  const std::string cases[] = {
      start + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
      start + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      start + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
      start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      start + "Transfer-Encoding: identity\r\n\r\n",
      start + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
      start + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
      start + "Content-Length: -1\r\n\r\n",
      start + "Content-Length : 2\r\n\r\n{}",
      "POST " + std::string(kChatPath) + " HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  };
  TestServer server(says("hello"));
  for (const auto& request : cases) {
    CAPTURE(request);
    RawClient client(server.port);
    client.send(request + smuggled);
    bool closed = false;
    const auto reply = client.read_all(&closed);
    CHECK(closed);
    const bool refused = status_of(reply) == 400 || status_of(reply) == 413;
    CHECK(refused);
    CHECK(reply.find("active_rows") == std::string::npos);
  }
  CHECK(server.model.active_rows() == 0);
}

TEST_CASE("pipelined requests are answered in order on one connection") {
  TestServer server(says("hello"));
  RawClient client(server.port);
  const std::string health = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(post(kChatPath, kChat) + health + post(kChatPath, "{") + health);
  CHECK(body_of(client.read_reply()).find("hello") != std::string::npos);
  CHECK(body_of(client.read_reply()) == R"({"status": "ok"})");
  CHECK(status_of(client.read_reply()) == 400);
  CHECK(body_of(client.read_reply()) == R"({"status": "ok"})");
}

TEST_CASE("a request that arrives while another streams waits its turn") {
  TestServer server;
  RawClient client(server.port);
  client.send(post(kChatPath, kChatStream));
  auto row = server.model.row(0);
  row->push_text("one");
  client.read_until("one");
  client.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  row->push_text("two");
  client.read_until("two");
  row->end();
  client.read_until("0\r\n\r\n");
  CHECK(status_of(client.read_reply()) == 200);
  CHECK_FALSE(row->request.prompt.empty());
}

TEST_CASE("HEAD gives the header of GET without its body") {
  TestServer server;
  RawClient client(server.port);
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const auto reply = client.read_all();
  CHECK(status_of(reply) == 200);
  CHECK(header_of(reply, "Content-Length") == "16");
  CHECK(body_of(reply).empty());
}

TEST_CASE("HTTP/1.0 is answered in kind, a stream ending with the connection") {
  TestServer server(says("hello"));
  RawClient client(server.port);
  const std::string body = kChatStream;
  client.send("POST /v1/chat/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  bool closed = false;
  const auto reply = client.read_all(&closed);
  CHECK(closed);
  CHECK(reply.starts_with("HTTP/1.0 200"));
  CHECK(header_of(reply, "Transfer-Encoding").empty());
  CHECK(reply.ends_with("data: [DONE]\n\n"));
}

TEST_CASE("Expect: 100-continue gets its go-ahead before the body") {
  TestServer server(says("hello"));
  RawClient client(server.port);
  const std::string body = kChat;
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  CHECK(client.read_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(body);
  CHECK(status_of(client.read_reply()) == 200);
}

TEST_CASE("a body over the limit is 413, by its length or while it arrives") {
  auto options = quick_options();
  options.body_bytes_max = 1000;
  TestServer server(says("hello"), options);
  const auto announced = server.ask(post(kChatPath, std::string(2000, ' ')));
  CHECK(status_of(announced) == 413);
  CHECK(body_of(announced).find("1000") != std::string::npos);
  CHECK(status_of(server.ask(chunked(std::string(2000, ' ')))) == 413);
}

TEST_CASE("a header over the limit is 431") {
  TestServer server;
  RawClient client(server.port);
  client.send("GET /health HTTP/1.1\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n");
  CHECK(status_of(client.read_all()) == 431);
}

TEST_CASE("a header that trickles in is cut off with 408") {
  auto options = quick_options();
  options.header_wait_max = std::chrono::milliseconds(150);
  TestServer server({}, options);
  RawClient client(server.port);
  client.send("GET /health HT");
  bool closed = false;
  CHECK(status_of(client.read_all(&closed)) == 408);
  CHECK(closed);
}

TEST_CASE("bytes that are no HTTP are 400 and close") {
  TestServer server;
  for (const char* bytes : {"\x16\x03\x01\x02\r\n\r\n", "GET\r\n\r\n", "GET /a b c d e f g\r\n\r\n",
                            "GET /health HTTP/9.9\r\n\r\n", "GET nowhere HTTP/1.1\r\n\r\n"}) {
    CAPTURE(std::string(bytes));
    RawClient client(server.port);
    client.send(bytes);
    bool closed = false;
    CHECK(status_of(client.read_all(&closed)) >= 400);
    CHECK(closed);
  }
}

TEST_CASE("a Unix socket serves as a port does, and a stale file is no obstacle") {
  auto options = quick_options();
  options.unix_path = "/tmp/tandem_test_" + std::to_string(getpid()) + ".sock";
  for (int round = 0; round < 2; ++round) {
    TestServer server(says("hello"), options);
    CHECK(server.http.address() == "unix:" + options.unix_path);
    RawClient client(options.unix_path);
    client.send(post(kChatPath, kChat));
    CHECK(body_of(client.read_reply()).find("hello") != std::string::npos);
    CHECK_THROWS_WITH_AS(HttpServer(options, {}), doctest::Contains("another server"), Error);
  }
}

TEST_CASE("a port in use is refused with the next step") {
  TestServer server;
  auto options = quick_options();
  options.port = static_cast<uint16_t>(server.port);
  CHECK_THROWS_WITH_AS(HttpServer(options, {}), doctest::Contains("in use"), Error);
  options.host = "no.such.host.invalid";
  CHECK_THROWS_WITH_AS(HttpServer(options, {}), doctest::Contains("no such host"), Error);
}
