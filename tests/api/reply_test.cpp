#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "api/json_text.h"
#include "api/openai/chat_reply.h"
#include "api/openai/completion_reply.h"

using namespace tandem;
using namespace tandem::api;
using namespace tandem::api::openai;

namespace {

// 0 "ab", 1 and 2 the halves of "é", 3 " x", 9 a control token.
std::string bytes_of(int32_t id) {
  switch (id) {
    case 0: return "ab";
    case 1: return "\xc3";
    case 2: return "\xa9";
    case 3: return " x";
    case 9: return "<s>";
    default: return "";
  }
}

CallHead head(bool with_logprobs = false) {
  return {.id = "id-1",
          .created = 7,
          .model = "m",
          .with_logprobs = with_logprobs,
          .token_bytes = bytes_of};
}

// Two tools, and call ids c0, c1, ...
ChatOutput output() {
  ToolSet tools;
  tools.add("add", nullptr);
  tools.add("now", nullptr);
  return {.parser = {.format = {}, .tools = tools},
          .new_call_id = [next = 0]() mutable { return std::string(1, 'c') + char('0' + next++); }};
}

TokenInfo token(int32_t id, float logprob, std::vector<TokenLogprob> top = {}) {
  return {.id = id, .has_logprob = true, .logprob = logprob, .top = std::move(top)};
}

Event text_event(std::string text, std::vector<TokenInfo> tokens = {}) {
  Event event;
  event.text = std::move(text);
  event.tokens = std::move(tokens);
  return event;
}

Event final_event(FinishReason finish, int generated) {
  Event event;
  event.finish = finish;
  event.usage = {.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = generated};
  return event;
}

// The data of every event of a stream.
std::vector<std::string> events_of(const std::string& stream) {
  std::vector<std::string> events;
  size_t begin = 0;
  while (begin < stream.size()) {
    const auto end = stream.find("\n\n", begin);
    REQUIRE(end != std::string::npos);
    REQUIRE(stream.compare(begin, 6, "data: ") == 0);
    events.push_back(stream.substr(begin + 6, end - begin - 6));
    begin = end + 2;
  }
  return events;
}

}  // namespace

TEST_CASE("a chat reply carries text, finish reason and usage") {
  auto writer = chat_reply(head(), 1, output());
  std::string out;
  writer->on_event(0, text_event("Hel"), out);
  writer->on_event(0, text_event("lo"), out);
  writer->on_event(0, final_event(FinishReason::kStop, 3), out);
  CHECK(out.empty());
  writer->finish(out);
  const auto reply = Json::parse(out);
  CHECK(reply["object"] == "chat.completion");
  CHECK(reply["choices"][0]["message"]["content"] == "Hello");
  CHECK(reply["choices"][0]["finish_reason"] == "stop");
  CHECK(reply["choices"][0]["logprobs"] == nullptr);
  CHECK(reply["usage"]["prompt_tokens"] == 5);
  CHECK(reply["usage"]["completion_tokens"] == 3);
  CHECK(reply["usage"]["total_tokens"] == 8);
  CHECK(reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 2);
}

TEST_CASE("a chat stream is byte for byte what OpenAI's clients expect") {
  auto with_usage = head();
  with_usage.include_usage = true;
  auto writer = chat_stream(with_usage, 1, output());
  std::string out;
  writer->on_event(0, text_event("Hi"), out);
  writer->on_event(0, final_event(FinishReason::kLength, 1), out);
  writer->finish(out);
  const std::string same =
      R"("id":"id-1","object":"chat.completion.chunk","created":7,"model":"m")";
  auto choice = [](const char* delta, const char* finish) {
    return std::string(R"("choices":[{"index":0,"delta":)") + delta +
           R"(,"logprobs":null,"finish_reason":)" + finish + "}]";
  };
  const std::string expected =
      "data: {" + same + "," + choice(R"({"role":"assistant","content":""})", "null") +
      ",\"usage\":null}\n\n" +  //
      "data: {" + same + "," + choice(R"({"content":"Hi"})", "null") + ",\"usage\":null}\n\n" +
      "data: {" + same + "," + choice("{}", "\"length\"") + ",\"usage\":null}\n\n" +  //
      "data: {" + same +
      R"(,"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6,)" +
      R"("prompt_tokens_details":{"cached_tokens":2}}})" + "\n\ndata: [DONE]\n\n";
  CHECK(out == expected);
}

TEST_CASE("the prompt of several choices counts once") {
  auto two = head();
  two.choices_per_prompt = 2;
  auto writer = chat_reply(two, 2, output());
  std::string out;
  writer->on_event(1, final_event(FinishReason::kStop, 4), out);
  writer->on_event(0, final_event(FinishReason::kStop, 3), out);
  writer->finish(out);
  const auto reply = Json::parse(out);
  CHECK(reply["usage"]["prompt_tokens"] == 5);
  CHECK(reply["usage"]["completion_tokens"] == 7);
  CHECK(reply["choices"][1]["index"] == 1);
}

TEST_CASE("chat logprobs give a token's raw bytes, even of half a character") {
  auto writer = chat_reply(head(true), 1, output());
  std::string out;
  writer->on_event(0, text_event("é", {token(1, -0.5f, {{1, -0.5f}, {0, -1}}), token(2, -0.25f)}),
                   out);
  writer->on_event(0, final_event(FinishReason::kStop, 2), out);
  writer->finish(out);
  const auto content = Json::parse(out)["choices"][0]["logprobs"]["content"];
  REQUIRE(content.size() == 2);
  CHECK(content[0]["bytes"] == Json{0xC3});
  CHECK(content[0]["token"] == "\xEF\xBF\xBD");
  CHECK(content[0]["logprob"] == -0.5);
  CHECK(content[0]["top_logprobs"][1]["token"] == "ab");
}

TEST_CASE("an echo lists the prompt's tokens, the first without a logprob") {
  auto writer = completion_reply(head(true), {{.text = "abé", .ids = {9, 0, 1, 2}}});
  Event prompt;
  prompt.prompt = {{.id = 9}, token(0, -1, {{3, -0.5f}}), token(1, -2), token(2, -3)};
  std::string out;
  writer->on_event(0, prompt, out);
  writer->on_event(0, text_event(" x", {token(3, -4, {{3, -4}})}), out);
  writer->on_event(0, final_event(FinishReason::kLength, 1), out);
  writer->finish(out);
  const auto choice = Json::parse(out)["choices"][0];
  CHECK(choice["text"] == "abé x");
  const auto& logprobs = choice["logprobs"];
  CHECK(logprobs["tokens"] == Json{"<s>", "ab", "bytes:\\xc3", "bytes:\\xa9", " x"});
  CHECK(logprobs["token_logprobs"] == Json{nullptr, -1.0, -2.0, -3.0, -4.0});
  CHECK(logprobs["top_logprobs"][0] == nullptr);
  CHECK(logprobs["top_logprobs"][1] == Json{{" x", -0.5}, {"ab", -1.0}});
  CHECK(logprobs["top_logprobs"][4] == Json{{" x", -4.0}});
  CHECK(logprobs["text_offset"] == Json{0, 0, 2, 2, 3});
}

TEST_CASE("without a tokenizer a token is written by its id") {
  auto plain = head(true);
  plain.token_bytes = [](int32_t) { return std::string(); };
  auto writer = completion_reply(plain, {{}});
  std::string out;
  writer->on_event(0, text_event("", {token(42, -1)}), out);
  writer->on_event(0, final_event(FinishReason::kLength, 1), out);
  writer->finish(out);
  CHECK(Json::parse(out)["choices"][0]["logprobs"]["tokens"] == Json{"token_id:42"});
}

TEST_CASE("token ids come when asked for, whole and streamed") {
  auto with_ids = head();
  with_ids.return_token_ids = true;
  std::string whole, streamed;
  auto reply = completion_reply(with_ids, {{.ids = {5, 6}}});
  auto stream = completion_stream(with_ids, {{.ids = {5, 6}}});
  for (auto [writer, out] : {std::pair{reply.get(), &whole}, std::pair{stream.get(), &streamed}}) {
    writer->on_event(0, text_event("ab", {token(0, 0)}), *out);
    writer->on_event(0, text_event(" x", {token(3, 0)}), *out);
    writer->on_event(0, final_event(FinishReason::kLength, 2), *out);
    writer->finish(*out);
  }
  const auto choice = Json::parse(whole)["choices"][0];
  CHECK(choice["token_ids"] == Json{0, 3});
  CHECK(choice["prompt_token_ids"] == Json{5, 6});
  const auto events = events_of(streamed);
  REQUIRE(events.size() == 4);
  CHECK(Json::parse(events[0])["choices"][0]["prompt_token_ids"] == Json{5, 6});
  CHECK(Json::parse(events[1])["choices"][0]["token_ids"] == Json{3});
  CHECK(events[3] == "[DONE]");
}

TEST_CASE("a stream of completions starts with the echoed prompt") {
  auto writer = completion_stream(head(), {{.text = "ab"}});
  std::string out;
  writer->on_event(0, text_event(" x"), out);
  writer->on_event(0, final_event(FinishReason::kStop, 1), out);
  const auto events = events_of(out);
  REQUIRE(events.size() == 2);
  CHECK(Json::parse(events[0])["choices"][0]["text"] == "ab x");
  CHECK(Json::parse(events[1])["choices"][0]["text"] == "");
}

TEST_CASE("a stream that breaks ends with one error event") {
  auto writer = chat_stream(head(), 1, output());
  std::string out;
  writer->fail(Error(ErrorCode::kInternal, "lost"), out);
  const auto events = events_of(out);
  REQUIRE(events.size() == 1);
  CHECK(Json::parse(events[0])["error"]["message"] == "lost");
}

namespace {

constexpr const char* kTwoCalls =
    "<think>\nHm.\n</think>\n\nLook.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 1, "
    "\"a\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

// The message that OpenAI's client makes of a stream's deltas.
Json joined_message(const std::string& stream, std::string* finish) {
  Json message = {{"content", ""}, {"reasoning_content", ""}, {"tool_calls", Json::array()}};
  for (const auto& event : events_of(stream)) {
    if (event == "[DONE]") break;
    const auto choice = Json::parse(event)["choices"][0];
    if (choice["finish_reason"].is_string()) *finish = choice["finish_reason"];
    const auto& delta = choice["delta"];
    for (const char* name : {"content", "reasoning_content"})
      if (delta.contains(name))
        message[name] = message[name].get<std::string>() + delta[name].get<std::string>();
    if (!delta.contains("tool_calls")) continue;
    const auto& call = delta["tool_calls"][0];
    auto& calls = message["tool_calls"];
    if (call.contains("id")) {
      CHECK(call["index"] == calls.size());
      calls.push_back({{"id", call["id"]}, {"type", call["type"]}, {"function", call["function"]}});
    } else {
      CHECK(call["index"] == calls.size() - 1);
      auto& text = calls.back()["function"]["arguments"];
      text = text.get<std::string>() + call["function"]["arguments"].get<std::string>();
    }
  }
  return message;
}

}  // namespace

TEST_CASE("reasoning and calls of tools are apart from the content") {
  auto writer = chat_reply(head(), 1, output());
  std::string out;
  writer->on_event(0, text_event(kTwoCalls), out);
  writer->on_event(0, final_event(FinishReason::kStop, 9), out);
  writer->finish(out);
  const auto choice = Json::parse(out)["choices"][0];
  CHECK(choice["finish_reason"] == "tool_calls");
  CHECK(choice["message"]["content"] == "Look.");
  CHECK(choice["message"]["reasoning_content"] == "Hm.");
  CHECK(choice["message"]["reasoning"] == "Hm.");
  CHECK(choice["message"]["tool_calls"].dump() ==
        R"([{"id":"c0","type":"function","function":{"name":"add","arguments":)"
        R"("{\"b\": 1, \"a\": 2}"}},)"
        R"({"id":"c1","type":"function","function":{"name":"now","arguments":"{}"}}])");
}

TEST_CASE("a message of calls alone has no content") {
  auto writer = chat_reply(head(), 1, output());
  std::string out;
  writer->on_event(0, text_event(R"(<tool_call>{"name": "now"}</tool_call>)"), out);
  writer->on_event(0, final_event(FinishReason::kStop, 9), out);
  writer->finish(out);
  CHECK(Json::parse(out)["choices"][0]["message"]["content"] == nullptr);
}

TEST_CASE("a stream's deltas add up to the whole message, however the text is cut") {
  const std::string text = kTwoCalls;
  auto whole = chat_reply(head(), 1, output());
  std::string reply;
  whole->on_event(0, text_event(text), reply);
  whole->on_event(0, final_event(FinishReason::kStop, 9), reply);
  whole->finish(reply);
  const auto message = Json::parse(reply)["choices"][0]["message"];
  for (size_t piece : {1, 2, 3, 7, 40, 1000}) {
    auto writer = chat_stream(head(), 1, output());
    std::string out, finish;
    for (size_t at = 0; at < text.size(); at += piece)
      writer->on_event(0, text_event(text.substr(at, piece)), out);
    writer->on_event(0, final_event(FinishReason::kStop, 9), out);
    writer->finish(out);
    const auto joined = joined_message(out, &finish);
    CHECK(finish == "tool_calls");
    for (const char* name : {"content", "reasoning_content", "tool_calls"})
      CHECK(joined[name] == message[name]);
  }
}

TEST_CASE("reasoning is left out when the client does not want it") {
  auto how = output();
  how.include_reasoning = false;
  auto writer = chat_reply(head(), 1, std::move(how));
  std::string out;
  writer->on_event(0, text_event("<think>Hm.</think>Yes."), out);
  writer->on_event(0, final_event(FinishReason::kStop, 9), out);
  writer->finish(out);
  const auto message = Json::parse(out)["choices"][0]["message"];
  CHECK(message["content"] == "Yes.");
  CHECK_FALSE(message.contains("reasoning_content"));
}

TEST_CASE("a call that max_tokens cuts off ends with length") {
  auto writer = chat_reply(head(), 1, output());
  std::string out;
  writer->on_event(0, text_event(R"(<tool_call>{"name": "add", "arguments": {"a": 1)"), out);
  writer->on_event(0, final_event(FinishReason::kLength, 9), out);
  writer->finish(out);
  CHECK(Json::parse(out)["choices"][0]["finish_reason"] == "length");
}
