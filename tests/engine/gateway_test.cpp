// Lanes, exclusive work, and who owns what a request brings along.
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "helpers.h"

using namespace tandem;
using namespace tandem::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

template <class Condition>
void await(Engine& engine, Condition&& condition) {
  while (!condition(engine.stats())) std::this_thread::yield();
}

// Counts how often it is disposed of.
struct Counted : RowResource {
  explicit Counted(std::atomic<int>& count) : count(count) {}
  void dispose() noexcept override { ++count; }
  std::atomic<int>& count;
};

SubmitOptions counted(std::atomic<int>& count) {
  SubmitOptions options;
  options.resource = std::make_unique<Counted>(count);
  return options;
}

}  // namespace

TEST_CASE("exclusive work runs when rows under way have finished, and new rows wait for it") {
  Gate gate;
  std::atomic<int> exclusive_runs = 0;
  std::atomic<int> rows_before = 0, rows_after = 0;
  auto e = engine({.on_forward = [&](const Step& step) {
    gate.pass();
    (exclusive_runs == 0 ? rows_before : rows_after) += static_cast<int>(step.n_rows());
  }});
  auto first = e->submit(request(prompt(4), 6));
  gate.await(1);
  std::thread other([&] { e->run_exclusive([&](LoadedModel&) { ++exclusive_runs; }); });
  await(*e, [](const EngineStats& s) { return s.exclusive_waiting == 1; });
  auto second = e->submit(request(prompt(5), 3));
  gate.open();
  other.join();
  CHECK(collect(*first).ids == fake_greedy(prompt(4), 6));
  CHECK(collect(*second).ids == fake_greedy(prompt(5), 3));
  CHECK(exclusive_runs == 1);
  CHECK(rows_before == 6);  // the first row's steps, none of the second
  CHECK(rows_after == 3);
}

TEST_CASE("exclusive work sees the model, and what it throws reaches its caller alone") {
  auto e = engine();
  std::string id;
  e->run_exclusive([&](LoadedModel& loaded) { id = loaded.card.id; });
  CHECK(id == "fake");
  CHECK_THROWS_WITH(e->run_exclusive([](LoadedModel&) { throw std::runtime_error("no mount"); }),
                    "no mount");
  CHECK(run(*e, request(prompt(4), 5)).ids == fake_greedy(prompt(4), 5));
}

TEST_CASE("neither endless rows nor endless exclusive work starve the other") {
  auto e = engine({}, {.max_rows = 2});
  std::atomic<int> exclusive_runs = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 40; ++i) e->run_exclusive([&](LoadedModel&) { ++exclusive_runs; });
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const Ids ids = prompt(3 + i, t + 1);
        if (run(*e, request(ids, 4)).ids != fake_greedy(ids, 4)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(exclusive_runs == 120);
  CHECK(wrong == 0);
  CHECK(e->wait_idle(seconds(60)));
  CHECK_FALSE(e->stats().locked);
}

TEST_CASE("an engine that ends fails exclusive work whose turn has not come") {
  Gate gate;
  auto e = engine({.on_forward = [&](const Step&) { gate.pass(); }});
  auto stream = e->submit(request(prompt(4), 50));
  gate.await(1);
  Error error(ErrorCode::kInternal, "");
  std::thread other([&] { error = error_of([&] { e->run_exclusive([](LoadedModel&) {}); }); });
  await(*e, [](const EngineStats& s) { return s.exclusive_waiting == 1; });
  std::thread ender([&] { e.reset(); });
  gate.open();
  ender.join();
  other.join();
  CHECK((error.code() == ErrorCode::kUnavailable || std::string(error.what()) == "no error"));
}

TEST_CASE("with one row at a time every request takes the serial lane, and says why") {
  std::atomic<bool> shared = false;
  auto e = engine({.on_forward = [&](const Step& step) { shared = shared || step.n_rows() > 1; }},
                  {.max_rows = 1});
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(e->submit(request(prompt(10 + i), 6)));
  for (int i = 0; i < 5; ++i) {
    const Collected all = collect(*streams[i]);
    CHECK(all.ids == fake_greedy(prompt(10 + i), 6));
    CHECK(all.last.usage.route.lane == Lane::kSerial);
    CHECK(all.last.usage.route.reasons == std::vector{SerialReason::kBatchOff});
  }
  CHECK_FALSE(shared);
  const EngineStats stats = e->stats();
  CHECK(std::string(stats.batch_mode) == "off");
  CHECK(stats.submitted_serial == 5);
  CHECK(stats.submitted_batch == 0);
  CHECK(stats.serial_reasons[static_cast<size_t>(SerialReason::kBatchOff)] == 5);
}

TEST_CASE("rows of a model with recurrent state share steps unless that is switched off") {
  for (bool batch_states : {true, false}) {
    std::atomic<bool> shared = false;
    FakeOptions fake{.states = true};
    fake.on_forward = [&](const Step& step) { shared = shared || step.n_rows() > 1; };
    EngineOptions options;
    options.batch_states = batch_states;
    auto e = engine(fake, options);
    std::vector<std::shared_ptr<Stream>> streams;
    for (int i = 0; i < 6; ++i) streams.push_back(e->submit(request(prompt(100, i + 1), 20)));
    for (int i = 0; i < 6; ++i) {
      CHECK(collect(*streams[i]).ids == fake_greedy(prompt(100, i + 1), 20, {.states = true}));
    }
    CHECK(shared == batch_states);
    CHECK(std::string(e->stats().batch_mode) == (batch_states ? "batch" : "serial"));
  }
}

TEST_CASE("serial rows, whose readers may be behind, and exclusive work take turns") {
  auto e = engine({}, {.max_rows = 1, .stream_events_max = 4});
  auto slow = e->submit(request(prompt(20), 40));
  await(*e, [](const EngineStats& s) { return s.paused_rows == 1; });
  int ran = 0;
  e->run_exclusive([&](LoadedModel&) { ++ran; });
  CHECK(run(*e, request(prompt(8), 30)).ids == fake_greedy(prompt(8), 30));
  CHECK(collect(*slow).ids == fake_greedy(prompt(20), 40));
  CHECK(ran == 1);
}

TEST_CASE("an idle engine says so at once, and a busy one when it has become idle") {
  Gate gate;
  auto e = engine({.on_forward = [&](const Step&) { gate.pass(); }});
  CHECK(e->wait_idle(milliseconds(0)));
  CHECK_FALSE(e->stats().busy);
  auto stream = e->submit(request(prompt(4), 3));
  gate.await(1);
  CHECK(e->stats().busy);
  CHECK(e->stats().locked);
  CHECK_FALSE(e->wait_idle(milliseconds(1)));
  gate.open();
  CHECK(e->wait_idle(seconds(60)));
  CHECK_FALSE(e->stats().busy);
}

TEST_CASE("a request that was aborted already reaches no lane") {
  std::atomic<int> disposed = 0;
  auto e = engine();
  SubmitOptions options = counted(disposed);
  options.abort = std::make_shared<std::atomic<bool>>(true);
  CHECK(error_of([&] { e->submit(request(prompt(4), 5), std::move(options)); }).code() ==
        ErrorCode::kCancelled);
  CHECK(disposed == 1);
  CHECK(e->stats().submitted == 0);
}

TEST_CASE("an abort that comes with the last token still counts") {
  std::atomic<bool>* flag = nullptr;
  auto e = engine({.on_forward = [&](const Step& step) {
    if (flag && step.positions[0] == 6) *flag = true;  // in the last step
  }});
  auto abort = std::make_shared<std::atomic<bool>>(false);
  flag = abort.get();
  SubmitOptions options;
  options.abort = abort;
  auto stream = e->submit(request(prompt(4), 4), std::move(options));
  const Collected all = collect(*stream);
  CHECK(all.last.finish == FinishReason::kCancelled);
  CHECK(all.ids == fake_greedy(prompt(4), 4));
  stream->cancel();  // and afterwards it means nothing
  CHECK(e->stats().finished_cancelled == 1);
}

TEST_CASE("what a request brings along is disposed of once, wherever the request ends") {
  std::atomic<int> disposed = 0;
  const auto expect_one = [&](const char* where) {
    CAPTURE(where);
    CHECK(disposed == 1);
    disposed = 0;
  };
  {
    Gate gate;
    std::atomic<int> throws = 0;
    auto e = engine({.contexts_in_memory = 1,
                     .on_forward =
                         [&](const Step&) {
                           gate.pass();
                           if (throws > 0 && throws-- > 0) throw std::runtime_error("device lost");
                         }},
                    {.max_rows = 2, .queue_max = 2, .stream_events_max = 4});
    CHECK_THROWS(e->submit(request({}, 5), counted(disposed)));
    expect_one("refused as invalid");

    // Three rows fill the batch and the queue.
    auto running = e->submit(request(prompt(4), 100));
    auto second = e->submit(request(prompt(5), 100));
    gate.await(1);
    await(*e, [](const EngineStats& s) { return s.active_rows >= 1; });
    gate.step();
    gate.await(2);
    auto waiting = e->submit(request(prompt(6), 100), counted(disposed));
    auto last = e->submit(request(prompt(7), 100));
    CHECK(error_of([&] { e->submit(request(prompt(8), 1), counted(disposed)); }).code() ==
          ErrorCode::kQueueFull);
    expect_one("refused by a full queue");

    waiting->cancel();
    gate.open();
    CHECK(collect(*waiting).last.finish == FinishReason::kCancelled);
    expect_one("cancelled while waiting");
    for (auto* stream : {&running, &second, &last}) (*stream)->cancel();
    for (auto* stream : {&running, &second, &last}) collect(**stream);

    auto decoding = e->submit(request(prompt(20), 200), counted(disposed));
    Event event;
    CHECK(decoding->next(event));
    decoding->cancel();
    collect(*decoding);
    expect_one("cancelled while decoding");

    throws = 1;
    CHECK(collect(*e->submit(request(prompt(4), 5), counted(disposed))).last.finish ==
          FinishReason::kError);
    expect_one("failed by the forward pass");

    Ids poisoned = prompt(20, 2);
    poisoned.back() = kPoisonToken;
    collect(*e->submit(request(poisoned, 5), counted(disposed)));
    expect_one("failed by the sampler");

    auto thrower = e->submit(request(prompt(30), 50), counted(disposed));
    thrower->set_listener([] { throw std::runtime_error("reader broke"); });
    collect(*thrower);
    expect_one("failed by its listener");

    collect(*e->submit(request(prompt(4), 5), counted(disposed)));
    expect_one("finished");

    auto paused = e->submit(request(prompt(4), 100), counted(disposed));
    await(*e, [](const EngineStats& s) { return s.paused_rows == 1; });
    paused->cancel();
    collect(*paused);
    expect_one("cancelled while paused");

    auto left = e->submit(request(prompt(4), 100), counted(disposed));
    await(*e, [](const EngineStats& s) { return s.paused_rows == 1; });
    e.reset();
    expect_one("running when the engine ended");
  }
  {
    Engine e({}, []() -> LoadedModel { throw Error(ErrorCode::kLoad, "no such file"); });
    CHECK_THROWS(e.wait_ready());
    CHECK_THROWS(e.submit(request(prompt(4), 5), counted(disposed)));
    expect_one("refused by a failed engine");
  }
  {
    auto e = engine();
    e->drain(seconds(60));
    CHECK_THROWS(e->submit(request(prompt(4), 5), counted(disposed)));
    expect_one("refused while draining");
  }
  {
    auto e = engine({}, {.stream_events_max = 4});
    auto stream = e->submit(request(prompt(4), 100), counted(disposed));
    await(*e, [](const EngineStats& s) { return s.paused_rows == 1; });
    e->drain(milliseconds(1));
    collect(*stream);
    expect_one("cancelled at the drain's deadline");
  }
}

TEST_CASE("a resource is disposed of before its row's final event can be read") {
  for (int prefill_steps : {0, 3}) {
    std::atomic<int> disposed = 0;
    auto e = engine({}, {.max_rows = 2, .step_tokens = 10});
    auto stream = e->submit(request(prompt(1 + prefill_steps * 10), 3), counted(disposed));
    Event event;
    while (stream->next(event)) {
      CHECK(disposed == (event.finish == FinishReason::kNone ? disposed.load() : 1));
    }
    CHECK(disposed == 1);
  }
}

TEST_CASE("a model that can't batch serves its rows one at a time, and says why") {
  FakeOptions fake;
  fake.describe = [](ModelInfo& info) { info.kv_capabilities[0].batchable = false; };
  auto e = engine(fake);
  auto first = e->submit(request(prompt(9), 8));
  const Collected second = run(*e, request(prompt(10), 8));
  CHECK(second.ids == fake_greedy(prompt(10), 8));
  CHECK(second.last.usage.route.reasons == std::vector{SerialReason::kCache});
  CHECK(collect(*first).ids == fake_greedy(prompt(9), 8));
  CHECK(std::string(e->stats().batch_mode) == "serial");
  CHECK(e->stats().serial_because == "a full cache of fake holds one row only");
}

TEST_CASE("a cache that can't be shared is never looked into") {
  FakeOptions fake;
  fake.describe = [](ModelInfo& info) { info.kv_capabilities[0].shareable = false; };
  auto e = engine(fake);
  run(*e, request(prompt(100), 8));
  CHECK(run(*e, request(prompt(100), 8)).last.usage.cached_tokens == 0);
}
