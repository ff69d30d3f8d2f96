#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "server/test_server.h"

using namespace tandem;
using namespace tandem::server;

namespace {

// Handlers without a socket.
struct Routes {
  explicit Routes(ScriptedModel::Script script = {}) : model(std::move(script)) {}

  HttpReply ask(const std::string& method, const std::string& path, const std::string& body = {},
                const std::string& header = {}, const std::string& value = {}) {
    HttpRequest request{.id = "r", .method = method, .path = path, .body = body};
    if (!header.empty()) request.headers.emplace_back(header, value);
    return answer(request, app);
  }

  // The body of a reply whose rows have all ended.
  api::Json whole(const std::string& path, const std::string& body) {
    auto reply = ask("POST", path, body);
    std::string text = reply.body;
    if (reply.producer) REQUIRE(reply.producer->pump(text) == Producer::State::kDone);
    return api::Json::parse(text);
  }

  ScriptedModel model;
  App app{.model = model};
};

}  // namespace

TEST_CASE("health is exact, models list the served id and its context") {
  Routes routes;
  CHECK(routes.ask("GET", "/health").body == R"({"status": "ok"})");
  const auto list = api::Json::parse(routes.ask("GET", "/v1/models").body);
  CHECK(list["data"][0]["id"] == "scripted");
  CHECK(list["data"][0]["context_window"] == 1000);
  CHECK(routes.ask("GET", "/v1/models/scripted").status == 200);
  const auto unknown = routes.ask("GET", "/v1/models/other");
  CHECK(unknown.status == 404);
  CHECK(unknown.body.find("model_not_found") != std::string::npos);
}

TEST_CASE("an unknown path is 404 JSON, a wrong method 405 with Allow") {
  Routes routes;
  CHECK(routes.ask("GET", "/nowhere").status == 404);
  CHECK(routes.ask("GET", "/nowhere").body.find("/nowhere") != std::string::npos);
  const auto reply = routes.ask("DELETE", "/v1/models");
  CHECK(reply.status == 405);
  CHECK(reply.headers[0] == std::pair<std::string, std::string>("Allow", "GET, HEAD"));
  CHECK(routes.ask("GET", "/v1/chat/completions").status == 405);
}

TEST_CASE("with an API key everything but the probes asks for it") {
  Routes routes(says("x"));
  routes.app.options.api_key = "secret";
  CHECK(routes.ask("GET", "/health").status == 200);
  CHECK(routes.ask("GET", "/v1/models").status == 401);
  CHECK(routes.ask("GET", "/nowhere").status == 401);
  for (const char* wrong : {"Bearer secre", "Bearer secretx", "Bearer ", "secret", ""})
    CHECK(routes.ask("GET", "/v1/models", "", "Authorization", wrong).status == 401);
  CHECK(routes.ask("GET", "/v1/models", "", "authorization", "bearer secret").status == 200);
  CHECK(routes.ask("GET", "/v1/models", "", "X-Api-Key", "secret").status == 200);
}

TEST_CASE("another model's name is served under our id, or 404 when strict") {
  Routes routes(says("x"));
  const char* body = R"({"model":"gpt-9","messages":[{"role":"user","content":"hi"}]})";
  CHECK(routes.whole("/v1/chat/completions", body)["model"] == "scripted");
  routes.app.options.strict_model = true;
  CHECK(routes.ask("POST", "/v1/chat/completions", body).status == 404);
  CHECK(routes.whole("/v1/chat/completions", kChat)["model"] == "scripted");
}

TEST_CASE("bodies that are not JSON, or nest too deeply, are 400") {
  Routes routes(says("x"));
  for (std::string body :
       {std::string(), std::string("{"), std::string("[]"), std::string("\xff"),
        std::string(100'000, '['), R"({"messages":[],"metadata":)" + std::string(100'000, '[')})
    CHECK(routes.ask("POST", "/v1/chat/completions", body).status == 400);
}

TEST_CASE("while draining new work is 503 and not ready, the rest answers") {
  Routes routes(says("x"));
  CHECK(routes.ask("GET", "/ready").status == 200);
  routes.app.draining = true;
  CHECK(routes.ask("POST", "/v1/chat/completions", kChat).status == 503);
  CHECK(routes.ask("GET", "/ready").status == 503);
  CHECK(routes.ask("GET", "/health").status == 200);
}

TEST_CASE("without a tokenizer only token ids are served, and chat says so") {
  Routes routes(says("x"));
  routes.model.tokenizer = false;
  const auto chat = routes.ask("POST", "/v1/chat/completions", kChat);
  CHECK(chat.status == 400);
  CHECK(chat.body.find("token ids") != std::string::npos);
  CHECK(routes.ask("POST", "/v1/completions", R"({"prompt":"a"})").status == 400);
  CHECK(routes.ask("POST", "/v1/completions", R"({"prompt":[1,2]})").status == 200);
}

TEST_CASE("echo asks for the prompt's logprobs and repeats the prompt") {
  Routes routes([](ScriptedRow& row) {
    Event event;
    for (size_t i = 0; i < row.request.prompt.size(); ++i)
      event.prompt.push_back({.id = row.request.prompt[i], .has_logprob = i > 0});
    row.push(event);
    row.end(FinishReason::kLength);
  });
  const auto reply = routes.whole(
      "/v1/completions", R"({"prompt":[104,105],"echo":true,"max_tokens":0,"logprobs":1})");
  const auto request = routes.model.row(0)->request;
  CHECK(request.max_tokens == 0);
  CHECK(request.prompt_logprobs == 1);
  CHECK(request.prompt == std::vector<int32_t>{104, 105});
  CHECK(reply["choices"][0]["text"] == "hi");
  CHECK(reply["choices"][0]["logprobs"]["token_logprobs"][0] == nullptr);
  CHECK(reply["choices"][0]["logprobs"]["tokens"].size() == 2);
}

TEST_CASE("lists of prompts times n give choices in order, one seed for all") {
  Routes routes([](ScriptedRow& row) {
    row.push_text(std::string(1, static_cast<char>(row.request.prompt[0])));
    row.end();
  });
  const auto reply =
      routes.whole("/v1/completions", R"({"prompt":["a","b"],"n":2,"seed":9,"max_tokens":4})");
  std::string texts;
  for (const auto& choice : reply["choices"]) texts += choice["text"].get<std::string>();
  CHECK(texts == "aabb");
  CHECK(reply["usage"]["prompt_tokens"] == 2);
  CHECK(reply["usage"]["completion_tokens"] == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(routes.model.row(i)->request.choice == static_cast<int>(i % 2));
    CHECK(routes.model.row(i)->request.sampling.seed == 9);
  }
}

TEST_CASE("text that can never fit is refused before it is encoded") {
  Routes routes(says("x"));
  const std::string text(1'000'000, 'a');  // the context holds 1,000 tokens
  for (const auto& [path, body] :
       {std::pair{"/v1/completions", R"({"prompt":")" + text + "\"}"},
        std::pair{"/v1/chat/completions",
                  R"({"messages":[{"role":"user","content":")" + text + "\"}]}"}}) {
    const auto reply = routes.ask("POST", path, body);
    CHECK(reply.status == 400);
    CHECK(reply.body.find("bytes") != std::string::npos);
    CHECK(reply.body.find("context_length_exceeded") != std::string::npos);
  }
}

TEST_CASE("an exception that is no Error is 500 and hides its text") {
  Routes routes([](ScriptedRow&) { throw std::runtime_error("secret detail"); });
  const auto reply = routes.ask("POST", "/v1/chat/completions", kChat);
  CHECK(reply.status == 500);
  CHECK(reply.body.find("secret") == std::string::npos);
}
