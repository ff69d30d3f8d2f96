#include "cli/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace tandem::cli {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const auto set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { listen(); });
}

StopSignals::~StopSignals() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::set_patient() {
  std::lock_guard lock(mutex_);
  patient_ = true;
}

int StopSignals::received() const {
  std::lock_guard lock(mutex_);
  return received_;
}

void StopSignals::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return received_ != 0; });
}

void StopSignals::on_stop(std::function<void()> callback) {
  std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
}

void StopSignals::listen() {
  const auto set = stop_signals();
  while (true) {
    int signal = 0;
    sigwait(&set, &signal);
    std::unique_lock lock(mutex_);
    if (ending_) return;
    if (!patient_) _exit(0);
    if (received_ != 0) _exit(128 + signal);
    received_ = signal;
    changed_.notify_all();
    if (callback_) callback_();
  }
}

}  // namespace tandem::cli
