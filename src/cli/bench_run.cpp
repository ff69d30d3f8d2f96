#include "cli/bench_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

#include "base/error.h"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Ids of a prompt that no cache has seen; the first ids of a vocabulary are
// often control tokens.
std::vector<int32_t> random_prompt(int64_t vocab_size, int tokens, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const int64_t first = vocab_size > 2000 ? 1000 : 0;
  std::uniform_int_distribution<int32_t> any(static_cast<int32_t>(first),
                                             static_cast<int32_t>(vocab_size - 1));
  std::vector<int32_t> prompt(std::max(tokens, 1));
  std::generate(prompt.begin(), prompt.end(), [&] { return any(generator); });
  return prompt;
}

Request greedy(std::vector<int32_t> prompt, int tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.ignore_eos = true;
  return request;
}

void throw_if_failed(const Event& event) {
  if (event.finish == FinishReason::kError)
    throw Error(static_cast<ErrorCode>(event.error_code), event.error);
}

// Reads several rows from one thread.
class Readers {
 public:
  void add(std::shared_ptr<Stream> stream) {
    stream->set_listener([this] {
      std::lock_guard lock(mutex_);
      news_ = true;
      changed_.notify_one();
    });
    streams_.push_back(std::move(stream));
  }

  ~Readers() {
    for (auto& stream : streams_) stream->set_listener({});
  }

  // on_tokens(row, count) for all events, until every row has ended.
  template <typename F>
  void run(F&& on_tokens) {
    size_t running = streams_.size();
    while (running > 0) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return news_; });
        news_ = false;
      }
      Event event;
      for (size_t row = 0; row < streams_.size(); ++row)
        while (streams_[row]->try_next(event)) {
          throw_if_failed(event);
          on_tokens(row, static_cast<int>(event.tokens.size()));
          if (event.finish != FinishReason::kNone) --running;
        }
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace

double measure_prefill(Engine& engine, int prompt_tokens, uint64_t seed) {
  const auto begin = Clock::now();
  const auto stream =
      engine.submit(greedy(random_prompt(engine.card().vocab_size, prompt_tokens, seed), 1));
  Event event;
  while (stream->next(event)) throw_if_failed(event);
  return prompt_tokens / seconds_since(begin);
}

DecodeSpeed measure_decode(Engine& engine, int rows, int depth, int tokens, uint64_t seed) {
  Readers readers;
  for (int row = 0; row < rows; ++row)
    readers.add(engine.submit(
        greedy(random_prompt(engine.card().vocab_size, depth, seed + static_cast<uint64_t>(row)),
               tokens + 1)));
  // The clock starts when the last row has its first token.
  std::vector<int> produced(rows, 0);
  int started = 0;
  int64_t before = 0, total = 0;
  Clock::time_point begin;
  EngineStats stats_before;
  readers.run([&](size_t row, int count) {
    if (count == 0) return;
    total += count;
    if (std::exchange(produced[row], 1) == 1 || ++started < rows) return;
    begin = Clock::now();
    before = total;
    stats_before = engine.stats();
  });
  DecodeSpeed speed;
  speed.tps = static_cast<double>(total - before) / seconds_since(begin);
  const EngineStats stats = engine.stats();
  const double busy_ms = stats.busy_ms - stats_before.busy_ms;
  if (busy_ms > 0) speed.engine_share = 1 - (stats.forward_ms - stats_before.forward_ms) / busy_ms;
  return speed;
}

}  // namespace tandem::cli
