#include "engine/exclusive_work.h"

#include <utility>

namespace tandem {

void ExclusiveWork::run(LoadedModel& loaded) {
  std::exception_ptr error;
  try {
    body_(loaded);
  } catch (...) {
    error = std::current_exception();
  }
  finish(std::move(error));
}

void ExclusiveWork::finish(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  error_ = std::move(error);
  done_ = true;
  changed_.notify_all();
}

void ExclusiveWork::wait() {
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(std::move(error));
}

}  // namespace tandem
