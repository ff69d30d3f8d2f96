#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "api/call_options.h"
#include "api/errors.h"
#include "base/error.h"

using namespace tandem;
using namespace tandem::api;

namespace {

const ModelFacts kModel{.id = "m", .context_length = 10, .vocab_size = 100};

Request made(const CallOptions& options, const ModelFacts& model = kModel, int builtin = 0) {
  return make_request(options, model, {1, 2, 3}, 0, 42, builtin);
}

}  // namespace

TEST_CASE("a sampling value comes from the request, the server, the model file, then built in") {
  CallOptions request;
  auto model = kModel;
  CHECK(made(request, model).sampling.temperature == kBuiltinTemperature);
  const SamplingChoice file{.temperature = 0.4f, .top_k = 7};
  model.defaults = SamplingChoice{.temperature = 0.3f}.over(file);
  CHECK(made(request, model).sampling.temperature == 0.3f);
  CHECK(made(request, model).sampling.top_k == 7);
  request.sampling.temperature = 0.0f;
  CHECK(made(request, model).sampling.temperature == 0);
}

TEST_CASE("max_tokens is clamped to what the context leaves") {
  CallOptions options;
  CHECK(made(options).max_tokens == 7);
  CHECK(made(options, kModel, 4).max_tokens == 4);
  options.sampling.max_tokens = 100;
  CHECK(made(options).max_tokens == 7);
}

TEST_CASE("a prompt that leaves no room is a context error, unless nothing is generated") {
  CallOptions options;
  auto model = kModel;
  model.context_length = 3;
  CHECK_THROWS_WITH_AS(made(options, model), doctest::Contains("3 tokens"), Error);
  options.sampling.max_tokens = 0;
  CHECK(made(options, model).max_tokens == 0);
}

TEST_CASE("a biased token must be in the vocabulary, a prompt must not be empty") {
  CallOptions options;
  options.logit_bias[100] = 1;
  CHECK_THROWS_WITH_AS(made(options), doctest::Contains("logit_bias.100"), Error);
  CHECK_THROWS_WITH_AS(make_request({}, kModel, {}, 0, 1, 0), doctest::Contains("empty"), Error);
}

TEST_CASE("every error code has its line in the table") {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code)
    CHECK(wire_error(static_cast<ErrorCode>(code)).http_status >= 400);
  CHECK(wire_error(ErrorCode::kQueueFull).http_status == 429);
}

TEST_CASE("an error body has OpenAI's shape, and an unknown model OpenAI's code") {
  const auto body =
      Json::parse(openai_error_body(Error(ErrorCode::kNotFound, "no \"x\"\xff", "model")));
  CHECK(body["error"]["code"] == "model_not_found");
  CHECK(body["error"]["param"] == "model");
  CHECK(body["error"]["type"] == "invalid_request_error");
  CHECK(Json::parse(openai_error_body(Error(ErrorCode::kInternal, "x")))["error"]["param"] ==
        nullptr);
}
