// Builders and collectors for engine tests.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "fake_model.h"

namespace tandem::testing {

using Ids = std::vector<int32_t>;

// A prompt of `length` tokens that depends on `seed`.
inline Ids prompt(int length, int seed = 1) {
  Ids ids(length);
  for (int i = 0; i < length; ++i) ids[i] = (seed * 31 + i * 7 + i * i * seed) % 90;
  return ids;
}

inline Request request(Ids prompt, int max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  return r;
}

// All that a stream delivered.
struct Collected {
  Ids ids;
  std::vector<TokenInfo> tokens;
  std::vector<TokenInfo> prompt;
  std::string text;
  Event last;
};

inline Collected collect(Stream& stream) {
  Collected all;
  Event event;
  while (stream.next(event)) {
    for (const TokenInfo& token : event.tokens) all.ids.push_back(token.id);
    all.tokens.insert(all.tokens.end(), event.tokens.begin(), event.tokens.end());
    all.prompt.insert(all.prompt.end(), event.prompt.begin(), event.prompt.end());
    all.text += event.text;
    all.last = event;
  }
  return all;
}

inline std::unique_ptr<Engine> engine(const FakeOptions& fake = {}, EngineOptions options = {}) {
  auto result = std::make_unique<Engine>(options, [fake] { return load_fake(fake); });
  result->wait_ready();
  return result;
}

inline Collected run(Engine& engine, Request r) { return collect(*engine.submit(std::move(r))); }

// The code and field of the Error that `body` throws; kInternal "no error" if none.
template <class Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

// Holds the engine thread inside a forward pass until told to go on.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_ || permits_ > 0; });
    if (!open_) --permits_;
  }
  // Waits until `n` passes have been asked for in all.
  void await(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= n; });
  }
  void step(int n = 1) {
    std::lock_guard lock(mutex_);
    permits_ += n;
    changed_.notify_all();
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  int permits_ = 0;
  bool open_ = false;
};

}  // namespace tandem::testing
