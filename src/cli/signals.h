// SIGINT and SIGTERM as a request to stop: the first is handed over, the second
// ends the process at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tandem::cli {

// Create it before any other thread, which then inherit the blocked signals.
// One in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Until `set_patient`, a first signal ends the process at once with status 0:
  // there is nothing to finish while a model loads.
  void set_patient();

  // The signal's number once one has come; 0 while none has.
  int received() const;
  // Blocks until a signal comes.
  void wait();
  // Called from the signal thread with the first signal.
  void on_stop(std::function<void()> callback);

 private:
  void listen();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> callback_;
  bool patient_ = false;
  bool ending_ = false;
  int received_ = 0;
  std::thread thread_;
};

}  // namespace tandem::cli
