#include <doctest/doctest.h>

#include "server/test_server.h"

using namespace tandem;
using namespace tandem::server;

namespace {

constexpr std::string_view kChatPath = "/v1/chat/completions";
constexpr const char* kCall = R"(<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>)";

std::string ask_with_tools(TestServer& server, const std::string& more = "") {
  return server.ask(
      post(kChatPath, R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function",)"
                      R"("function":{"name":"add","parameters":{"properties":{"b":{},"a":{}}}}}])" +
                          more + "}"));
}

api::Json message_of(const std::string& reply) {
  return api::Json::parse(body_of(reply))["choices"][0];
}

}  // namespace

TEST_CASE("a model's call becomes tool_calls, with a finish reason of its own") {
  TestServer server(says(std::string(kCall) + kCall));
  const auto choice = message_of(ask_with_tools(server));
  CHECK(choice["finish_reason"] == "tool_calls");
  const auto& calls = choice["message"]["tool_calls"];
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["id"] != calls[1]["id"]);
  CHECK(calls[0]["function"]["arguments"] == R"({"a": 1})");
}

TEST_CASE("the chat template gets the tools in the client's order of keys") {
  TestServer server(says("ok"));
  ask_with_tools(server);
  CHECK(server.model.template_variables.find(R"({"b":{},"a":{}})") != std::string::npos);
}

TEST_CASE("without tools a call in the text is text") {
  TestServer server(says(kCall));
  const auto choice = message_of(server.ask(post(kChatPath, kChat)));
  CHECK(choice["message"]["content"] == kCall);
  CHECK(choice["finish_reason"] == "stop");
}

TEST_CASE("with parallel_tool_calls false the row ends behind its first call") {
  TestServer server;
  RawClient client(server.port);
  client.send(post(kChatPath,
                   R"({"messages":[{"role":"user","content":"hi"}],"parallel_tool_calls":false,)"
                   R"("tools":[{"type":"function","function":{"name":"add"}}]})"));
  auto row = server.model.row(0);
  row->push_text(kCall);
  row->push_text(kCall);
  CHECK(eventually([&] { return row->cancelled.load(); }));
  row->end(FinishReason::kCancelled);
  const auto choice = message_of(client.read_reply());
  CHECK(choice["finish_reason"] == "tool_calls");
  CHECK(choice["message"]["tool_calls"].size() == 1);
}

TEST_CASE("what follows a prompt that began the reasoning is reasoning") {
  TestServer server(says("Hm.</think>\n\nYes."));
  server.model.in_reasoning = true;
  const auto message = message_of(server.ask(post(kChatPath, kChat)))["message"];
  CHECK(message["reasoning_content"] == "Hm.");
  CHECK(message["content"] == "Yes.");
}

TEST_CASE("a template that knows no tools gets them in the system message, and results as text") {
  TestServer server(says("ok"));
  server.model.knows_tools = false;
  server.ask(post(
      kChatPath,
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"1",)"
      R"("function":{"name":"add","arguments":"{\"b\":1}"}}]},{"role":"tool","tool_call_id":"1",)"
      R"("content":"two"}],"tools":[{"type":"function","function":{"name":"add"}}]})"));
  const auto messages = api::Json::parse(server.model.last_messages);
  REQUIRE(messages.size() == 4);
  CHECK(messages[0]["content"].get<std::string>().find(R"("name":"add")") != std::string::npos);
  CHECK(messages[2]["content"] ==
        "<tool_call>\n{\"name\":\"add\",\"arguments\":{\"b\":1}}\n</tool_call>");
  CHECK(messages[3]["role"] == "user");
  CHECK(messages[3]["content"] == "<tool_response>\ntwo\n</tool_response>");
}

TEST_CASE("a schema that can't be enforced is 400, or with --grammar-fallback prompt a hint") {
  TestServer server(says("{}"));
  const auto request =
      post(kChatPath,
           R"({"messages":[{"role":"user","content":"hi"}],"guided_json":{"type":"strnig"}})");
  CHECK(status_of(server.ask(request)) == 400);
  server.app.options.grammar_fallback = true;
  const auto reply = server.ask(request);
  CHECK(status_of(reply) == 200);
  CHECK(header_of(reply, "Warning").find("strnig") != std::string::npos);
  CHECK(server.model.last_messages.find("strnig") != std::string::npos);
  CHECK_FALSE(server.model.last_guide.kind);
}
