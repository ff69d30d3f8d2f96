// Prefixes that rows share through the cache.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "helpers.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Prompt tokens that went through the model.
int64_t computed(Engine& e) { return e.stats().prompt_tokens; }

void check_equal(const Collected& got, const Collected& wanted) {
  CHECK(got.ids == wanted.ids);
  REQUIRE(got.tokens.size() == wanted.tokens.size());
  for (size_t i = 0; i < got.tokens.size(); ++i) {
    CHECK(got.tokens[i].logprob == wanted.tokens[i].logprob);
  }
}

Request scored(Ids ids, int max_tokens) {
  Request r = request(std::move(ids), max_tokens);
  r.logprobs = 1;
  return r;
}

const FakeOptions kKinds[] = {{.context_length = 512}, {.context_length = 512, .window = 40}};

}  // namespace

TEST_CASE("a prompt that begins like an earlier one computes only what is new, to the same bits") {
  for (const FakeOptions& fake : kKinds) {
    auto e = engine(fake);
    const Ids shared = prompt(200);
    run(*e, request(shared, 4));
    const Ids longer = joined(shared, prompt(50, 2));
    const int64_t before = computed(*e);
    const Collected all = run(*e, scored(longer, 20));
    CHECK(all.last.usage.cached_tokens >= 192);
    CHECK(all.last.usage.prompt_tokens == 250);
    CHECK(computed(*e) - before == 250 - all.last.usage.cached_tokens);
    auto cold = engine(fake, {.prompt_cache_bytes = 0});
    check_equal(all, run(*cold, scored(longer, 20)));
    CHECK(e->stats().prefix.hits == 1);
    CHECK(e->stats().prefix.hit_tokens == all.last.usage.cached_tokens);
  }
}

TEST_CASE("a prompt that is cached whole computes its last token only") {
  for (const FakeOptions& fake : kKinds) {
    for (int length : {1, 31, 32, 33, 64, 100, 128}) {
      CAPTURE(length);
      auto e = engine(fake);
      // The block that ends the prompt is whole only when the row has gone on a while.
      const Collected first = run(*e, scored(prompt(length), 40));
      const int64_t before = computed(*e);
      const Collected again = run(*e, scored(prompt(length), 40));
      check_equal(again, first);
      CHECK(again.last.usage.cached_tokens == length - 1);
      CHECK(computed(*e) - before == 1);
    }
  }
}

TEST_CASE("a follow-up turn finds the answer of the turn before as well") {
  auto e = engine({.context_length = 512});
  const Ids question = prompt(100);
  const Ids answer = run(*e, request(question, 60)).ids;
  const Ids next = joined(joined(question, answer), prompt(20, 3));
  const Collected all = run(*e, request(next, 10));
  CHECK(all.last.usage.cached_tokens >= 100 + 60 - 32);
  CHECK(all.ids == fake_greedy(next, 10));
}

TEST_CASE("rows that share a page part way through copy it and never write into each other's") {
  for (const FakeOptions& fake : kKinds) {
    auto e = engine(fake, {.max_rows = 8});
    run(*e, request(prompt(160), 40));
    std::vector<std::shared_ptr<Stream>> streams;
    std::vector<Ids> prompts;
    for (int i = 0; i < 8; ++i) {
      Ids start = prompt(160);
      start.resize(97 + i * 5);
      prompts.push_back(joined(start, prompt(10, 40 + i)));
      streams.push_back(e->submit(request(prompts[i], 50)));
    }
    for (int i = 0; i < 8; ++i) {
      const Collected all = collect(*streams[i]);
      CHECK(all.ids == fake_greedy(prompts[i], 50, fake));
      CHECK(all.last.usage.cached_tokens >= 96 + i * 5);
    }
  }
}

TEST_CASE("identical requests at once compute their prompt once") {
  Gate gate;
  auto e = engine({.context_length = 512, .on_forward = [&](const Step&) { gate.pass(); }},
                  {.max_rows = 8, .step_tokens = 50});
  std::vector<std::shared_ptr<Stream>> streams;
  auto first = e->submit(request(prompt(4, 9), 1));
  gate.await(1);
  for (int i = 0; i < 6; ++i) streams.push_back(e->submit(request(prompt(300), 12)));
  auto other = e->submit(request(prompt(40, 5), 12));
  gate.open();
  collect(*first);
  for (auto& stream : streams) CHECK(collect(*stream).ids == fake_greedy(prompt(300), 12));
  CHECK(collect(*other).ids == fake_greedy(prompt(40, 5), 12));
  // The others compute what lies behind the last whole block.
  CHECK(computed(*e) == 4 + 300 + 5 * 12 + 40);
}

TEST_CASE("when the row that computes a shared prompt is cancelled another goes on with it") {
  Gate gate;
  auto e = engine({.context_length = 512, .on_forward = [&](const Step&) { gate.pass(); }},
                  {.max_rows = 4, .step_tokens = 50});
  auto leader = e->submit(request(prompt(300), 12));
  gate.await(1);
  auto follower = e->submit(request(prompt(300), 12));
  auto third = e->submit(request(prompt(300), 12));
  gate.step(2);
  gate.await(3);
  leader->cancel();
  gate.open();
  CHECK(collect(*follower).ids == fake_greedy(prompt(300), 12));
  CHECK(collect(*third).ids == fake_greedy(prompt(300), 12));
  CHECK(collect(*leader).last.finish == FinishReason::kCancelled);
  CHECK(e->stats().waiting_rows == 0);
}

TEST_CASE("cached pages give way to rows that need them") {
  for (const FakeOptions& kind : kKinds) {
    FakeOptions fake = kind;
    fake.contexts_in_memory = 1;
    auto e = engine(fake);
    for (int i = 0; i < 12; ++i) {
      const Ids ids = prompt(200 + i, i + 1);
      CHECK(run(*e, request(ids, 60)).ids == fake_greedy(ids, 60, fake));
    }
    const EngineStats stats = e->stats();
    CHECK(stats.preemptions == 0);
    CHECK(stats.kv_pages_used == 0);
    CHECK(stats.kv_pages_cached > 0);
    CHECK(stats.kv_pages_cached <= stats.kv_pages_total);
  }
}

TEST_CASE("the cache keeps to its bytes, and 0 turns it off") {
  auto small = engine({.context_length = 512}, {.prompt_cache_bytes = 5 * 1024});
  for (int i = 0; i < 5; ++i) run(*small, request(prompt(200, i + 1), 4));
  CHECK(small->stats().kv_bytes_cached <= 5 * 1024);
  CHECK(small->stats().kv_pages_cached > 0);

  auto off = engine({}, {.prompt_cache_bytes = 0});
  run(*off, request(prompt(100), 40));
  CHECK(run(*off, request(prompt(100), 40)).last.usage.cached_tokens == 0);
  CHECK(off->stats().kv_pages_cached == 0);
  CHECK(off->stats().prefix.queries == 0);
}

TEST_CASE("recurrent state is kept with the prompt, and a later row begins from there") {
  for (int window : {0, 40}) {
    const FakeOptions fake{.context_length = 4000, .window = window, .states = true};
    auto e = engine(fake);
    const Ids shared = prompt(1500);
    const Collected first = run(*e, scored(shared, 10));
    const int64_t before = computed(*e);
    const Collected again = run(*e, scored(shared, 10));
    check_equal(again, first);
    CHECK(again.last.usage.cached_tokens == 1472);  // the last whole block
    CHECK(computed(*e) - before == 1500 - 1472);
    Ids other = shared;
    other.resize(1200);
    const Ids branch = joined(other, prompt(30, 2));
    const Collected far = run(*e, request(branch, 10));
    CHECK(far.last.usage.cached_tokens == 1024);
    CHECK(far.ids == fake_greedy(branch, 10, fake));
  }
}

TEST_CASE("prompt log-probabilities are computed for all tokens even if they are cached") {
  auto e = engine();
  run(*e, request(prompt(100), 4));
  Request r = scored(prompt(100), 4);
  r.prompt_logprobs = 1;
  const Collected all = run(*e, r);
  CHECK(all.prompt.size() == 100);
  CHECK(all.last.usage.cached_tokens == 0);
}

TEST_CASE("a row that fails leaves nothing behind that another could find") {
  auto e = engine();
  Ids poisoned = prompt(64, 2);
  poisoned.back() = kPoisonToken;
  CHECK(run(*e, request(poisoned, 5)).last.finish == FinishReason::kError);
  CHECK(e->stats().prefix.blocks == 0);
}
