// What Engine::run_exclusive was given: run by the engine thread, waited for by the
// caller's. Shared by the two.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "engine/load_model.h"

namespace tandem {

class ExclusiveWork {
 public:
  explicit ExclusiveWork(std::function<void(LoadedModel&)> body) : body_(std::move(body)) {}

  // Engine thread; one of them, once.
  void run(LoadedModel& loaded);
  void fail(std::exception_ptr error) { finish(std::move(error)); }

  // Returns when it has run; throws what it threw, or failed with.
  void wait();

 private:
  void finish(std::exception_ptr error);

  std::function<void(LoadedModel&)> body_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace tandem
