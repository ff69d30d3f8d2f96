#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "api/openai/chat_request.h"
#include "api/openai/completion_request.h"
#include "base/error.h"
#include "base/json.h"

using namespace tandem;
using namespace tandem::api;
using namespace tandem::api::openai;

namespace {

Json chat_body(const Json& more = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  body.update(more);
  return body;
}

// The error of a call; fails the test if there is none.
template <typename F>
Error error_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return {ErrorCode::kInternal, ""};
}

Error chat_error(const Json& more) {
  return error_of([&] { parse_chat_request(chat_body(more)); });
}

Error completion_error(const Json& body) {
  return error_of([&] { parse_completion_request(body); });
}

constexpr const char* kOptional[] = {"temperature",
                                     "top_p",
                                     "top_k",
                                     "min_p",
                                     "max_tokens",
                                     "stop",
                                     "seed",
                                     "tools",
                                     "tool_choice",
                                     "logit_bias",
                                     "response_format",
                                     "stream_options",
                                     "user",
                                     "n",
                                     "logprobs",
                                     "top_logprobs",
                                     "stream",
                                     "model",
                                     "best_of",
                                     "max_completion_tokens"};

}  // namespace

TEST_CASE("null stands for an absent optional field, alone and together") {
  Json all = Json::object();
  for (const char* name : kOptional) {
    CAPTURE(name);
    CHECK_NOTHROW(parse_chat_request(chat_body({{name, nullptr}})));
    all[name] = nullptr;
  }
  CHECK(parse_chat_request(chat_body(all)).options.n == 1);
}

TEST_CASE("a required field that is null is named") {
  auto error = error_of([] { parse_chat_request({{"messages", nullptr}}); });
  CHECK(error.code() == ErrorCode::kInvalid);
  CHECK(error.param() == "messages");
  CHECK(completion_error({{"prompt", nullptr}}).param() == "prompt");
}

TEST_CASE("a wrong type or range names the field, what came and what would be right") {
  struct Case {
    Json more;
    const char* param;
    const char* says;
  };
  const Case cases[] = {
      {{{"temperature", "hot"}}, "temperature", "a number from 0 to 5, got the string \"hot\""},
      {{{"temperature", -1}}, "temperature", "got -1"},
      {{{"top_p", 1.5}}, "top_p", "from 0 to 1"},
      {{{"max_tokens", 1.5}}, "max_tokens", "an integer"},
      {{{"max_tokens", 0}}, "max_tokens", "0"},
      {{{"n", 0}}, "n", "from 1"},
      {{{"n", -1}}, "n", "from 1"},
      {{{"stream", "yes"}}, "stream", "true or false"},
      {{{"seed", "x"}}, "seed", "an integer"},
      {{{"logprobs", true}, {"top_logprobs", 99}}, "top_logprobs", "to 20"},
      {{{"top_logprobs", 2}}, "top_logprobs", "logprobs"},
      {{{"logit_bias", {{"x", 1}}}}, "logit_bias.x", "token ids"},
      {{{"logit_bias", {{"5", 101}}}}, "logit_bias.5", "100"},
      {{{"stream_options", {{"include_usage", 1}}}}, "stream_options.include_usage", "true or"},
      {{{"messages", "hi"}}, "messages", "an array"},
      {{{"messages", Json::array()}}, "messages", "at least one"},
      {{{"messages", {{{"role", "wizard"}, {"content", "x"}}}}}, "messages[0].role", "wizard"},
      {{{"messages", {{{"role", "user"}}}}}, "messages[0].content", "required"},
      {{{"messages", {{{"role", "user"}, {"content", 5}}}}}, "messages[0].content", "got 5"},
  };
  for (const auto& [more, param, says] : cases) {
    CAPTURE(more.dump());
    const auto error = chat_error(more);
    CHECK(error.code() == ErrorCode::kInvalid);
    CHECK(error.param() == param);
    CHECK(std::string(error.what()).find(says) != std::string::npos);
  }
}

TEST_CASE("an empty stop string is refused by its place, null and [] mean none") {
  CHECK(chat_error({{"stop", ""}}).param() == "stop");
  CHECK(chat_error({{"stop", {"x", ""}}}).param() == "stop[1]");
  CHECK(parse_chat_request(chat_body({{"stop", nullptr}})).options.stop.empty());
  CHECK(parse_chat_request(chat_body({{"stop", Json::array()}})).options.stop.empty());
  CHECK(parse_chat_request(chat_body({{"stop", "x"}})).options.stop ==
        std::vector<std::string>{"x"});
}

TEST_CASE("fields whose loss would change the answer are refused by name") {
  const std::pair<Json, const char*> cases[] = {
      {{{"best_of", 2}}, "best_of"},
      {{{"suffix", "end"}}, "suffix"},
      {{{"chat_template_kwargs", {{"chat_template", "x"}}}}, "chat_template"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}},
       "messages[0].content[0].type"},
  };
  for (const auto& [more, param] : cases) {
    CAPTURE(more.dump());
    const auto error = chat_error(more);
    CHECK(error.code() == ErrorCode::kUnsupported);
    CHECK(error.param() == param);
  }
}

TEST_CASE("the harmless forms of unsupported fields pass") {
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  for (const Json& more :
       {Json{{"tools", Json::array()}}, Json{{"tools", {tool}}, {"tool_choice", "none"}},
        Json{{"tool_choice", "auto"}}, Json{{"response_format", {{"type", "text"}}}},
        Json{{"best_of", 1}}, Json{{"suffix", ""}}, Json{{"adapter", "none"}}}) {
    CAPTURE(more.dump());
    CHECK_NOTHROW(parse_chat_request(chat_body(more)));
  }
}

TEST_CASE("unknown fields are listed, known ones are not") {
  const auto request = parse_chat_request(chat_body({{"frobnicate", 1}, {"user", "me"}}));
  CHECK(request.unknown_fields == std::vector<std::string>{"frobnicate"});
}

TEST_CASE("messages reach the template flattened") {
  const auto request = parse_chat_request(
      {{"messages",
        {{{"role", "developer"}, {"content", "be brief"}},
         {{"role", "user"},
          {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}},
         {{"role", "assistant"},
          {"content", nullptr},
          {"tool_calls",
           {{{"id", "1"}, {"function", {{"name", "f"}, {"arguments", "{\"x\":1}"}}}}}}}}}});
  const auto messages = Json::parse(request.messages);
  CHECK(messages[0]["role"] == "system");
  CHECK(messages[1]["content"] == "ab");
  CHECK(messages[2]["content"] == "");
  CHECK(messages[2]["tool_calls"][0]["function"]["arguments"] == Json{{"x", 1}});
}

TEST_CASE("arguments of earlier calls keep the order of their keys") {
  const auto request = parse_chat_request(
      {{"messages",
        {{{"role", "assistant"},
          {"tool_calls",
           {{{"id", "1"},
             {"function", {{"name", "f"}, {"arguments", R"({"z": 1, "a": {"y": 2, "b": 3}})"}}}}}}},
         {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "ok"}}}}});
  CHECK(request.messages.find(R"("arguments":{"z":1,"a":{"y":2,"b":3}})") != std::string::npos);
}

TEST_CASE("a result without its call is refused by its place") {
  const auto error = chat_error(
      {{"messages", {{{"role", "tool"}, {"tool_call_id", "1"}, {"content", "ignore all"}}}}});
  CHECK(error.param() == "messages[0].tool_call_id");
}

TEST_CASE("the template gets the tools as the client wrote them") {
  const auto body = parse_ordered_json(
      R"({"messages": [{"role": "user", "content": "hi"}], "tools": [{"function": {"name": "f",
          "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}}}]})",
      {}, "x");
  const auto request = parse_chat_request(body);
  CHECK(request.template_variables ==
        R"({"tools":[{"type":"function","function":{"name":"f","parameters":)"
        R"({"type":"object","properties":{"z":{},"a":{}}}}}]})");
  CHECK(request.tools.tools.at(0).name == "f");
}

TEST_CASE("with tool_choice none the template gets no tools") {
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  const auto request = parse_chat_request(chat_body({{"tools", {tool}}, {"tool_choice", "none"}}));
  CHECK(request.template_variables == "{}");
  CHECK_FALSE(request.tools.any());
}

TEST_CASE("a wrong tool or choice names the field") {
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  const std::pair<Json, const char*> cases[] = {
      {{{"tools", {{{"type", "web_search"}}}}}, "tools[0].type"},
      {{{"tools", {{{"type", "function"}}}}}, "tools[0].function"},
      {{{"tools", {{{"function", {{"name", "a b"}}}}}}}, "tools[0].function.name"},
      {{{"tools", {{{"function", {{"name", ""}}}}}}}, "tools[0].function.name"},
      {{{"tools", {tool, tool}}}, "tools[1].function.name"},
      {{{"tools", {{{"function", {{"name", "f"}, {"parameters", 5}}}}}}},
       "tools[0].function.parameters"},
      {{{"tool_choice", "required"}}, "tool_choice"},
      {{{"tools", {tool}}, {"tool_choice", "sometimes"}}, "tool_choice"},
      {{{"tools", {tool}}, {"tool_choice", {{"function", {{"name", "g"}}}}}},
       "tool_choice.function.name"},
      {{{"parallel_tool_calls", 1}}, "parallel_tool_calls"},
  };
  for (const auto& [more, param] : cases) {
    CAPTURE(more.dump());
    CHECK(chat_error(more).param() == param);
  }
}

TEST_CASE("template variables for thinking: effort, then the flag, then the template's own") {
  const auto thinking = [](const Json& more) {
    return Json::parse(parse_chat_request(chat_body(more)).template_variables)["enable_thinking"];
  };
  CHECK(thinking({{"reasoning_effort", "none"}}) == false);
  CHECK(thinking({{"reasoning_effort", "low"}}) == true);
  CHECK(thinking({{"reasoning_effort", "none"}, {"enable_thinking", true}}) == true);
  CHECK(thinking({{"enable_thinking", true},
                  {"chat_template_kwargs", {{"enable_thinking", false}}}}) == false);
}

TEST_CASE("tool-call arguments nested too deeply are refused") {
  const std::string deep(100'000, '[');
  const auto error =
      chat_error({{"messages",
                   {{{"role", "assistant"},
                     {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", deep}}}}}}}}}});
  CHECK(error.param() == "messages[0].tool_calls[0].function.arguments");
}

TEST_CASE("a completion's prompt may be text, texts, ids or lists of ids") {
  auto prompts = [](const Json& prompt) {
    return parse_completion_request({{"prompt", prompt}}).prompts;
  };
  using Ids = std::vector<int32_t>;
  CHECK(prompts("a") == std::vector<Prompt>{"a"});
  CHECK(prompts({"a", "b"}) == std::vector<Prompt>{"a", "b"});
  CHECK(prompts({1, 2}) == std::vector<Prompt>{Ids{1, 2}});
  CHECK(prompts({{1, 2}, {3}}) == std::vector<Prompt>{Ids{1, 2}, Ids{3}});
  CHECK(completion_error({{"prompt", Json::array()}}).param() == "prompt");
  CHECK(completion_error({{"prompt", {1, -2}}}).param() == "prompt[1]");
  CHECK(completion_error({{"prompt", {1, "a"}}}).param() == "prompt[1]");
  CHECK(completion_error({{"prompt", {"a", 1}}}).param() == "prompt[1]");
}

TEST_CASE("max_tokens 0 needs echo") {
  CHECK(parse_completion_request({{"prompt", "a"}, {"max_tokens", 0}, {"echo", true}}).echo);
  CHECK(completion_error({{"prompt", "a"}, {"max_tokens", 0}}).param() == "max_tokens");
}

TEST_CASE("max_completion_tokens goes before max_tokens") {
  const auto request =
      parse_chat_request(chat_body({{"max_tokens", 3}, {"max_completion_tokens", 5}}));
  CHECK(request.options.sampling.max_tokens == 5);
}

TEST_CASE("an integer may be written as 5.0, a seed may use all 64 bits") {
  CHECK(parse_chat_request(chat_body({{"max_tokens", 5.0}})).options.sampling.max_tokens == 5);
  const uint64_t seed = 0xFFFF'FFFF'FFFF'FFFF;
  CHECK(parse_chat_request(chat_body({{"seed", seed}})).options.seed == seed);
  CHECK(parse_chat_request(chat_body({{"seed", -1}})).options.seed == seed);
}
