// Rows from request to final event.
#include "engine/engine.h"

#include <doctest/doctest.h>

#include "helpers.h"

using namespace tandem;
using namespace tandem::testing;

TEST_CASE("a row delivers the model's greedy tokens and ends at max_tokens") {
  auto e = engine();
  const Collected all = run(*e, request(prompt(20), 8));
  CHECK(all.ids == fake_greedy(prompt(20), 8));
  CHECK(all.last.finish == FinishReason::kLength);
  CHECK(all.last.usage.prompt_tokens == 20);
  CHECK(all.last.usage.generated_tokens == 8);
}

TEST_CASE("the forward passes are part of the time of the steps") {
  auto e = engine();
  run(*e, request(prompt(20), 8));
  const EngineStats stats = e->stats();
  CHECK(stats.forward_ms > 0);
  CHECK(stats.busy_ms > stats.forward_ms);
}

TEST_CASE("rows are independent of their neighbours, their chunks and their pages") {
  for (const FakeOptions& fake :
       {FakeOptions{}, FakeOptions{.window = 40}, FakeOptions{.states = true},
        FakeOptions{.contexts_in_memory = 2, .window = 33, .states = true}}) {
    CAPTURE(fake.window);
    CAPTURE(fake.states);
    for (int step_tokens : {6, 17, 512}) {
      auto e = engine(fake, {.max_rows = 5, .step_tokens = step_tokens});
      std::vector<std::shared_ptr<Stream>> streams;
      for (int i = 0; i < 12; ++i) {
        streams.push_back(e->submit(request(prompt(1 + i * 17, i + 1), 5 + i)));
      }
      for (int i = 0; i < 12; ++i) {
        CAPTURE(i);
        CHECK(collect(*streams[i]).ids == fake_greedy(prompt(1 + i * 17, i + 1), 5 + i, fake));
      }
      CHECK(e->stats().kv_pages_used == 0);
    }
  }
}

TEST_CASE("a seeded row draws the same tokens alone and in a batch") {
  Request sampled = request(prompt(10), 30);
  sampled.sampling.temperature = 1;
  sampled.sampling.top_p = 0.9f;
  sampled.sampling.seed = 5;
  sampled.sampling.frequency_penalty = 1.05f;
  auto e = engine();
  const Ids alone = run(*e, sampled).ids;
  auto other = e->submit(request(prompt(99, 4), 50));
  auto again = e->submit(sampled);
  sampled.choice = 1;
  auto choice = e->submit(sampled);
  CHECK(collect(*again).ids == alone);
  CHECK(collect(*choice).ids != alone);
  CHECK(collect(*other).ids == fake_greedy(prompt(99, 4), 50));
}

TEST_CASE("a stop token ends the row, counts as generated and is not delivered") {
  const Ids greedy = fake_greedy(prompt(9), 20);
  auto e = engine({.stop_ids = {greedy[5]}});
  const Collected all = run(*e, request(prompt(9), 20));
  const Ids before(greedy.begin(), std::find(greedy.begin(), greedy.end(), greedy[5]));
  CHECK(all.ids == before);
  CHECK(all.last.finish == FinishReason::kStop);
  CHECK(all.last.usage.generated_tokens == std::ssize(before) + 1);
}

TEST_CASE("ignore_eos runs past the model's stop token, but not past the request's own") {
  const Ids greedy = fake_greedy(prompt(9), 20);
  auto e = engine({.stop_ids = {greedy[2]}});
  Request r = request(prompt(9), 20);
  r.ignore_eos = true;
  CHECK(run(*e, r).ids == greedy);
  r.stop_ids = {greedy[4]};
  CHECK(run(*e, r).last.finish == FinishReason::kStop);
}

TEST_CASE("min_tokens keeps stop tokens from being chosen too early") {
  const Ids greedy = fake_greedy(prompt(9), 20);
  auto e = engine({.stop_ids = {greedy[0], greedy[1]}});
  Request r = request(prompt(9), 20);
  r.min_tokens = 6;
  const Collected all = run(*e, r);
  CHECK(all.ids.size() >= 6);
  for (int32_t id : all.ids) CHECK((id != greedy[0] && id != greedy[1]));
}

TEST_CASE("max_tokens is clamped to the context, and the row ends with length") {
  auto e = engine({.context_length = 64});
  const Collected all = run(*e, request(prompt(60), 1000));
  CHECK(all.ids == fake_greedy(prompt(60), 4));
  CHECK(all.last.finish == FinishReason::kLength);
}

TEST_CASE("prompt log-probabilities are the same however the prompt is cut") {
  Request r = request(prompt(50), 3);
  r.prompt_logprobs = 2;
  r.logprobs = 2;
  auto whole = engine();
  auto cut = engine({}, {.max_rows = 2, .step_tokens = 7, .step_logits_max = 3 * kFakeVocab});
  auto neighbour = cut->submit(request(prompt(100, 3), 20));
  const Collected a = run(*whole, r), b = run(*cut, r);
  REQUIRE(a.prompt.size() == 50);
  REQUIRE(b.prompt.size() == 50);
  CHECK_FALSE(a.prompt[0].has_logprob);
  for (size_t i = 0; i < 50; ++i) {
    CHECK(a.prompt[i].id == r.prompt[i]);
    CHECK(a.prompt[i].has_logprob == (i > 0));
    CHECK(a.prompt[i].logprob == b.prompt[i].logprob);
    CHECK(a.prompt[i].top.size() == (i > 0 ? 2 : 0));
  }
  REQUIRE(a.tokens.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(a.tokens[i].logprob == b.tokens[i].logprob);
    CHECK(a.tokens[i].top[0].id == a.tokens[i].id);
  }
}

TEST_CASE("a step makes no more prompt logits than its bound") {
  size_t most = 0;
  auto e = engine({.on_forward = [&](const Step& s) { most = std::max(most, s.outputs.size()); }},
                  {.step_logits_max = 10 * kFakeVocab});
  Request r = request(prompt(200), 1);
  r.prompt_logprobs = 0;
  run(*e, r);
  CHECK(most == 10);
}

TEST_CASE("max_tokens 0 with prompt log-probabilities generates nothing") {
  auto e = engine();
  for (int length : {1, 40}) {
    Request r = request(prompt(length), 0);
    r.prompt_logprobs = 0;
    const Collected all = run(*e, r);
    CHECK(all.ids.empty());
    CHECK(std::ssize(all.prompt) == length);
    CHECK(all.last.finish == FinishReason::kLength);
    CHECK(all.last.usage.generated_tokens == 0);
  }
}

TEST_CASE("requests that can't be honoured are refused with the field and the code") {
  auto e = engine({.context_length = 64});
  const auto refused = [&](Request r) { return error_of([&] { e->submit(std::move(r)); }); };
  CHECK(refused(request({}, 5)).param() == "prompt");
  CHECK(refused(request({1, kFakeVocab}, 5)).code() == ErrorCode::kInvalid);
  CHECK(refused(request({-1}, 5)).param() == "prompt");
  CHECK(refused(request({1}, 0)).param() == "max_tokens");
  const Error too_long = refused(request(prompt(64), 5));
  CHECK(too_long.code() == ErrorCode::kContextLength);
  CHECK(std::string(too_long.what()).find("64 tokens") != std::string::npos);
  Request r = request({1}, 5);
  r.stop = {"a", ""};
  CHECK(refused(r).param() == "stop[1]");
  r.stop = {"a"};
  CHECK(refused(r).code() == ErrorCode::kUnsupported);
  r = request({1}, 5);
  r.sampling.top_p = 2;
  CHECK(refused(r).param() == "top_p");
  r = request({1}, 5);
  r.min_tokens = 6;
  CHECK(refused(r).param() == "min_tokens");
  CHECK(e->stats().refused == 9);
  CHECK(run(*e, request({1}, 2)).ids.size() == 2);
}

TEST_CASE("engine options that contradict each other are refused") {
  CHECK(error_of([] { engine({}, {.max_rows = 16, .step_tokens = 16}); }).param() == "step_tokens");
}

TEST_CASE("an engine whose model can't be loaded says why, and refuses requests") {
  Engine e({}, []() -> LoadedModel { throw Error(ErrorCode::kLoad, "no such file"); });
  CHECK(error_of([&] { e.wait_ready(); }).code() == ErrorCode::kLoad);
  CHECK_FALSE(e.ready());
  const Error error = error_of([&] { e.submit(request({1}, 1)); });
  CHECK(error.code() == ErrorCode::kUnavailable);
  CHECK(std::string(error.what()).find("no such file") != std::string::npos);
}

TEST_CASE("stats count what happened") {
  auto e = engine();
  run(*e, request(prompt(20), 8));
  run(*e, request(prompt(5), 2));
  const EngineStats stats = e->stats();
  CHECK(stats.ready);
  CHECK(stats.submitted == 2);
  CHECK(stats.finished_length == 2);
  CHECK(stats.prompt_tokens == 25);
  CHECK(stats.generated_tokens == 10);
  CHECK(stats.steps == 10);
  CHECK(stats.active_rows == 0);
  CHECK(stats.kv_pages_used == 0);
  CHECK(stats.kv_pages_total == 16 * 8);
}

TEST_CASE("one row's penalties change no other row, whoever joins and leaves first") {
  const auto penalised = [](Request r) {
    r.sampling.frequency_penalty = 1.05f;
    r.sampling.presence_penalty = 0.5f;
    r.sampling.repetition_penalty = 1.3f;
    return r;
  };
  const Request plain_long = request(prompt(4), 60), plain_short = request(prompt(90, 2), 10);
  for (bool short_is_penalised : {true, false}) {
    auto e = engine();
    const Request a = short_is_penalised ? plain_long : penalised(plain_long);
    const Request b = short_is_penalised ? penalised(plain_short) : plain_short;
    const Ids a_alone = run(*e, a).ids, b_alone = run(*e, b).ids;
    CHECK((a_alone == fake_greedy(prompt(4), 60)) == short_is_penalised);
    auto stream = e->submit(a);
    Event event;
    Ids a_together;
    while (std::ssize(a_together) < 5 && stream->next(event)) {
      for (const TokenInfo& token : event.tokens) a_together.push_back(token.id);
    }
    CHECK(run(*e, b).ids == b_alone);
    const Ids rest = collect(*stream).ids;
    a_together.insert(a_together.end(), rest.begin(), rest.end());
    CHECK(a_together == a_alone);
  }
}

TEST_CASE("an op that a backend does not have names itself and the backend") {
  const LoadedModel loaded = load_fake({});
  const Error error = error_of([&] { loaded.backend->moe({}, {}, {}, {}); });
  CHECK(error.code() == ErrorCode::kUnsupported);
  CHECK(std::string(error.what()) == "[moe] the fake backend does not have this op");
}
