// What happens to rows that are cancelled, that fail, or whose readers are slow,
// and to an engine that is asked to end.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "helpers.h"

using namespace tandem;
using namespace tandem::testing;
using std::chrono::milliseconds;

namespace {

// Reads until the stream has delivered `n` tokens.
void read_tokens(Stream& stream, size_t n) {
  Event event;
  for (size_t seen = 0; seen < n && stream.next(event);) seen += event.tokens.size();
}

// Waits until the engine's counts satisfy `done`.
template <class Predicate>
void await(Engine& e, Predicate done) {
  while (!done(e.stats())) std::this_thread::sleep_for(milliseconds(1));
}

}  // namespace

TEST_CASE("a cancelled row ends with one final event, frees its pages, and others go on") {
  auto e = engine({.context_length = 4096});
  auto doomed = e->submit(request(prompt(40), 4000));
  auto other = e->submit(request(prompt(30, 2), 60));
  read_tokens(*doomed, 3);
  doomed->cancel();
  CHECK(collect(*doomed).last.finish == FinishReason::kCancelled);
  CHECK(collect(*other).ids == fake_greedy(prompt(30, 2), 60));
  CHECK(e->stats().finished_cancelled == 1);
  CHECK(e->stats().kv_pages_used == 0);
}

TEST_CASE("a cancelled row takes no part in the next step") {
  Gate gate;
  std::vector<int64_t> rows;
  auto e = engine({.on_forward = [&](const Step& s) {
    rows.push_back(s.n_rows());
    gate.pass();
  }});
  auto doomed = e->submit(request(prompt(4), 50));
  gate.await(1);
  auto other = e->submit(request(prompt(4), 3));
  doomed->cancel();
  gate.open();
  CHECK(collect(*other).ids.size() == 3);
  CHECK(rows == std::vector<int64_t>{1, 1, 1, 1});
  CHECK(collect(*doomed).ids.size() == 1);
}

TEST_CASE("a long prompt that is cancelled stops at the next chunk") {
  Gate gate;
  auto e = engine({.context_length = 4096, .on_forward = [&](const Step&) { gate.pass(); }},
                  {.max_rows = 2, .step_tokens = 16});
  auto doomed = e->submit(request(prompt(3000), 50));
  gate.await(1);
  doomed->cancel();
  gate.open();
  CHECK(collect(*doomed).last.finish == FinishReason::kCancelled);
  CHECK(e->stats().steps == 1);
}

TEST_CASE("a waiting row that is cancelled never runs") {
  Gate gate;
  auto e = engine({.on_forward = [&](const Step&) { gate.pass(); }}, {.max_rows = 1});
  auto running = e->submit(request(prompt(4), 3));
  gate.await(1);
  auto waiting = e->submit(request(prompt(5), 3));
  waiting->cancel();
  gate.open();
  CHECK(collect(*waiting).last.finish == FinishReason::kCancelled);
  CHECK(collect(*running).ids.size() == 3);
  CHECK(e->stats().prompt_tokens == 4);
}

TEST_CASE("dropping a stream cancels its row") {
  auto e = engine({.context_length = 4096});
  e->submit(request(prompt(4), 4000));
  await(*e, [](const EngineStats& s) { return s.finished_cancelled == 1; });
  CHECK(e->stats().kv_pages_used == 0);
}

TEST_CASE("a forward pass that throws fails the rows of that step, and the next request runs") {
  std::atomic<int> throws = 0;
  auto e = engine({.on_forward = [&](const Step&) {
    if (throws-- > 0) throw std::runtime_error("device lost");
  }});
  throws = 1;
  const Collected failed = run(*e, request(prompt(4), 5));
  CHECK(failed.last.finish == FinishReason::kError);
  CHECK(failed.last.error == "device lost");
  CHECK(failed.last.error_code == static_cast<int>(ErrorCode::kInternal));
  CHECK(run(*e, request(prompt(4), 5)).ids == fake_greedy(prompt(4), 5));
  CHECK(e->stats().finished_error == 1);
  CHECK(e->stats().kv_pages_used == 0);
}

TEST_CASE("NaN logits fail their own row, and no other token changes") {
  auto e = engine();
  auto good = e->submit(request(prompt(20), 40));
  Ids poisoned = prompt(20, 2);
  poisoned.back() = kPoisonToken;
  const Collected bad = run(*e, request(poisoned, 5));
  CHECK(bad.last.finish == FinishReason::kError);
  CHECK(bad.last.error.find("NaN") != std::string::npos);
  CHECK(collect(*good).ids == fake_greedy(prompt(20), 40));
}

TEST_CASE("neighbours of a row that fails keep every bit, whatever it fails of") {
  const auto scored = [](int seed) {
    Request r = request(prompt(40, seed), 60);
    r.logprobs = 2;
    r.sampling.temperature = 1;
    r.sampling.seed = seed;
    return r;
  };
  auto quiet = engine();
  auto e = engine({}, {.max_rows = 8, .step_tokens = 20});
  std::vector<std::shared_ptr<Stream>> good, bad;
  for (int i = 1; i <= 4; ++i) {
    good.push_back(e->submit(scored(i)));
    Ids poisoned = prompt(30 + i, i + 10);
    if (i % 2 == 0) poisoned.back() = kPoisonToken;
    bad.push_back(e->submit(request(poisoned, 40)));
    if (i % 2 == 1) bad.back()->set_listener([] { throw std::runtime_error("reader broke"); });
  }
  for (int i = 1; i <= 4; ++i) {
    const Collected alone = run(*quiet, scored(i)), all = collect(*good[i - 1]);
    REQUIRE(all.ids == alone.ids);
    for (size_t t = 0; t < all.tokens.size(); ++t) {
      CHECK(all.tokens[t].logprob == alone.tokens[t].logprob);
      CHECK(all.tokens[t].top[1].logprob == alone.tokens[t].top[1].logprob);
    }
    CHECK(collect(*bad[i - 1]).last.finish == FinishReason::kError);
  }
  CHECK(e->stats().errors[static_cast<size_t>(ErrorCode::kInternal)] == 4);
}

TEST_CASE("a listener that throws loses its own row only") {
  Gate gate;
  auto e = engine({.on_forward = [&](const Step&) { gate.pass(); }});
  auto bad = e->submit(request(prompt(4), 50));
  gate.await(1);
  auto good = e->submit(request(prompt(6), 20));
  std::atomic<int> calls = 0;
  bad->set_listener([&] {
    ++calls;
    throw std::runtime_error("reader broke");
  });
  gate.open();
  const Collected all = collect(*bad);
  CHECK(all.last.finish == FinishReason::kError);
  CHECK(all.last.error == "reader broke");
  CHECK(calls == 1);
  CHECK(collect(*good).ids == fake_greedy(prompt(6), 20));
}

TEST_CASE("a listener is told of events that wait already and of those that come") {
  Gate gate;
  auto e = engine({.on_forward = [&](const Step&) { gate.pass(); }});
  auto stream = e->submit(request(prompt(4), 2));
  gate.step();
  gate.await(2);  // the first token has been delivered
  std::atomic<int> calls = 0;
  stream->set_listener([&] { ++calls; });
  CHECK(calls == 1);
  gate.open();
  await(*e, [](const EngineStats& s) { return s.finished_length == 1; });
  CHECK(collect(*stream).ids.size() == 2);
  CHECK(calls == 2);
}

TEST_CASE("a listener may read, and drop the last reference to its stream") {
  auto e = engine();
  std::atomic<bool> finished = false;
  auto stream = e->submit(request(prompt(4), 10));
  stream->set_listener([&finished, held = stream]() mutable {
    if (!held) return;
    Event event;
    while (held->try_next(event)) {
      if (event.finish == FinishReason::kNone) continue;
      held.reset();
      finished = true;
      return;
    }
  });
  stream.reset();
  while (!finished) std::this_thread::yield();
}

TEST_CASE("a row whose reader is behind is paused, others go on, and it resumes unharmed") {
  auto e = engine({}, {.stream_events_max = 4});
  auto slow = e->submit(request(prompt(20), 100));
  await(*e, [](const EngineStats& s) { return s.paused_rows == 1; });
  const int64_t generated = e->stats().generated_tokens;
  CHECK(generated == 4);
  CHECK(run(*e, request(prompt(8), 30)).ids == fake_greedy(prompt(8), 30));
  CHECK(e->stats().generated_tokens == generated + 30);
  CHECK(collect(*slow).ids == fake_greedy(prompt(20), 100));
}

TEST_CASE("a reader that takes nothing for the idle limit loses its row") {
  auto e = engine({}, {.stream_events_max = 4, .stream_idle_max = milliseconds(20)});
  auto gone = e->submit(request(prompt(20), 100));
  await(*e, [](const EngineStats& s) { return s.finished_cancelled == 1; });
  CHECK(e->stats().kv_pages_used == 0);
  const Collected all = collect(*gone);
  CHECK(all.ids.size() == 4);
  CHECK(all.last.finish == FinishReason::kCancelled);
  CHECK(all.last.error.find("took nothing for 20 ms") != std::string::npos);
}

TEST_CASE("requests beyond the queue's limit are refused, and served again later") {
  Gate gate;
  auto e =
      engine({.on_forward = [&](const Step&) { gate.pass(); }}, {.max_rows = 1, .queue_max = 2});
  std::vector<std::shared_ptr<Stream>> streams;
  streams.push_back(e->submit(request(prompt(4), 2)));
  gate.await(1);
  streams.push_back(e->submit(request(prompt(4), 2)));
  streams.push_back(e->submit(request(prompt(4), 2)));
  CHECK(error_of([&] { e->submit(request(prompt(4), 2)); }).code() == ErrorCode::kQueueFull);
  CHECK(e->stats().waiting_rows == 2);
  gate.open();
  for (auto& stream : streams) CHECK(collect(*stream).ids.size() == 2);
  CHECK(e->stats().waiting_rows == 0);
  CHECK(run(*e, request(prompt(4), 2)).ids.size() == 2);
}

TEST_CASE("rows wait for pages rather than fail, and a request too large for all is refused") {
  auto e = engine({.context_length = 256, .contexts_in_memory = 2});
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(e->submit(request(prompt(100, i + 1), 150)));
  for (int i = 0; i < 6; ++i) {
    CHECK(collect(*streams[i]).ids == fake_greedy(prompt(100, i + 1), 150));
  }
}

TEST_CASE("drain refuses new work and lets what runs and waits finish") {
  Gate gate;
  auto e = engine({.on_forward = [&](const Step&) { gate.pass(); }}, {.max_rows = 1});
  auto first = e->submit(request(prompt(4), 20));
  auto second = e->submit(request(prompt(5), 20));
  gate.await(1);
  std::thread drainer([&] { CHECK(e->drain(std::chrono::seconds(60))); });
  await(*e, [](const EngineStats& s) { return s.draining; });
  CHECK_FALSE(e->ready());
  CHECK(error_of([&] { e->submit(request({1}, 1)); }).code() == ErrorCode::kUnavailable);
  gate.open();
  drainer.join();
  CHECK(collect(*first).ids.size() == 20);
  CHECK(collect(*second).ids.size() == 20);
}

TEST_CASE("at the drain's deadline endless rows end with a final event") {
  auto e = engine({.context_length = 4096}, {.stream_events_max = 4});
  auto unread = e->submit(request(prompt(4), 4000));
  await(*e, [](const EngineStats& s) { return s.paused_rows == 1; });
  CHECK_FALSE(e->drain(milliseconds(10)));
  CHECK(collect(*unread).last.finish == FinishReason::kCancelled);
  CHECK(e->stats().active_rows == 0);
}

TEST_CASE("an idle engine drains at once, twice as well") {
  auto e = engine();
  CHECK(e->drain(std::chrono::seconds(60)));
  CHECK(e->drain(std::chrono::seconds(60)));
}

TEST_CASE("an engine that is destroyed ends its streams, which outlive it") {
  auto e = engine({.context_length = 4096});
  auto stream = e->submit(request(prompt(4), 4000));
  read_tokens(*stream, 1);
  e.reset();
  CHECK(collect(*stream).last.finish == FinishReason::kCancelled);
  CHECK(stream->finished());
  Event event;
  CHECK_FALSE(stream->next(event));
  stream->cancel();
}

TEST_CASE("an engine can be destroyed while its model loads") {
  Engine e({}, [] {
    std::this_thread::sleep_for(milliseconds(20));
    return load_fake({});
  });
  CHECK_FALSE(e.ready());
  CHECK(error_of([&] { e.submit(request({1}, 1)); }).code() == ErrorCode::kUnavailable);
  CHECK(error_of([&] { e.card(); }).code() == ErrorCode::kUnavailable);
}

TEST_CASE("a reader can wait for a limited time") {
  Gate gate;
  auto e = engine({.on_forward = [&](const Step&) { gate.pass(); }});
  auto stream = e->submit(request(prompt(4), 1));
  Event event;
  CHECK_FALSE(stream->try_next(event));
  CHECK_FALSE(stream->next_for(event, milliseconds(5)));
  gate.open();
  CHECK(stream->next_for(event, std::chrono::seconds(60)));
}

TEST_CASE("many threads submit, read, cancel and ask for stats at once") {
  auto e = engine({.contexts_in_memory = 4, .window = 40}, {.max_rows = 6, .step_tokens = 32});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const Ids ids = prompt(1 + (t * 37 + i * 11) % 120, t + 1);
        auto stream = e->submit(request(ids, 10 + i));
        if (i % 4 == 3) {
          stream->cancel();
          continue;
        }
        e->stats();
        if (collect(*stream).ids != fake_greedy(ids, 10 + i, {.window = 40})) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(e->drain(std::chrono::seconds(60)));
  const EngineStats stats = e->stats();
  CHECK(stats.kv_pages_used == 0);
  CHECK(stats.finished_length + stats.finished_cancelled == 96);
}
