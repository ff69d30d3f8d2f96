// Rows that give their pages back and come again.
#include <doctest/doctest.h>

#include <thread>

#include "helpers.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

// Two contexts of pages for up to five rows that want more between them.
FakeOptions tight(FakeOptions fake = {}) {
  fake.contexts_in_memory = 2;
  return fake;
}

Request scored(Ids ids, int max_tokens) {
  Request r = request(std::move(ids), max_tokens);
  r.logprobs = 2;
  r.prompt_logprobs = 1;
  return r;
}

std::vector<float> logprobs(const std::vector<TokenInfo>& tokens) {
  std::vector<float> values;
  for (const TokenInfo& token : tokens) values.push_back(token.logprob);
  return values;
}

}  // namespace

TEST_CASE("rows that had to give their pages back deliver what they deliver alone, once each") {
  for (const FakeOptions& fake :
       {tight(), tight({.window = 40}), tight({.window = 33, .states = true})}) {
    CAPTURE(fake.window);
    Gate gate;
    FakeOptions gated = fake;
    gated.on_forward = [&](const Step&) { gate.pass(); };
    auto e = engine(gated, {.max_rows = 5, .step_tokens = 40, .stream_events_max = 200});
    std::vector<std::shared_ptr<Stream>> streams;
    for (int i = 0; i < 8; ++i) streams.push_back(e->submit(request(prompt(60, i + 1), 190)));
    gate.open();
    for (int i = 0; i < 8; ++i) {
      const Collected all = collect(*streams[i]);
      CHECK(all.ids == fake_greedy(prompt(60, i + 1), 190, fake));
      CHECK(all.last.usage.generated_tokens == 190);
    }
    CHECK(e->stats().preemptions > 0);
    CHECK(e->stats().finished_error == 0);
    CHECK(e->stats().kv_pages_used == 0);
  }
}

TEST_CASE("seeded sampling, penalties and log-probabilities survive preemption bit by bit") {
  auto roomy = engine({});
  Gate gate;
  FakeOptions gated = tight();
  gated.on_forward = [&](const Step&) { gate.pass(); };
  auto e = engine(gated, {.max_rows = 5, .step_tokens = 40, .stream_events_max = 200});
  const auto make = [](int i) {
    Request r = scored(prompt(100, i + 1), 140);
    r.sampling.temperature = 1;
    r.sampling.seed = i;
    r.sampling.repetition_penalty = 1.1f;
    return r;
  };
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(e->submit(make(i)));
  gate.open();
  for (int i = 0; i < 6; ++i) {
    const Collected alone = run(*roomy, make(i));
    const Collected all = collect(*streams[i]);
    CHECK(all.ids == alone.ids);
    CHECK(logprobs(all.tokens) == logprobs(alone.tokens));
    CHECK(all.prompt.size() == 100);
    CHECK(logprobs(all.prompt) == logprobs(alone.prompt));
  }
  CHECK(e->stats().preemptions > 0);
}

TEST_CASE("a reader that is behind does not keep another request from the only place") {
  auto e = engine({}, {.max_rows = 1, .stream_events_max = 4});
  auto slow = e->submit(request(prompt(20), 100));
  CHECK(run(*e, request(prompt(8), 30)).ids == fake_greedy(prompt(8), 30));
  CHECK(collect(*slow).ids == fake_greedy(prompt(20), 100));
  CHECK(e->stats().preemptions == 1);
}

TEST_CASE("a row that was preempted can be cancelled while it waits") {
  auto e = engine(tight(), {.max_rows = 5, .stream_events_max = 200});
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(e->submit(request(prompt(60, i + 1), 190)));
  while (e->stats().preemptions == 0) std::this_thread::yield();
  for (auto& stream : streams) stream->cancel();
  for (auto& stream : streams) {
    const FinishReason finish = collect(*stream).last.finish;
    CHECK((finish == FinishReason::kCancelled || finish == FinishReason::kLength));
  }
  CHECK(e->stats().kv_pages_used == 0);
  CHECK(e->stats().waiting_rows == 0);
}
