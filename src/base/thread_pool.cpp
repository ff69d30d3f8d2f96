#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <string>

#include "base/error.h"

namespace tandem {
namespace {

// How long to spin for the next loop before sleeping. Loops of one step follow
// each other within a few microseconds; waking a sleeper costs about 50.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr int kPausesPerClock = 64;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until `ready` holds or the time is over; says whether it holds.
template <class Ready>
bool spin_until(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClock; i++) {
      if (ready()) return true;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

// Whole processors that the control group's quota amounts to; 0 = no quota.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || period <= 0) return 0;
  return std::max(1, static_cast<int>(quota / period));
}

}  // namespace

int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::set<std::string> cores;
  int logical = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      logical++;
      std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                         "/topology/thread_siblings_list");
      std::string siblings;
      if (std::getline(file, siblings)) cores.insert(siblings);
    }
  }
  int count = cores.empty() ? logical : static_cast<int>(cores.size());
  if (const int quota = quota_cores()) count = std::min(count, quota);
  return std::max(1, count);
}

ThreadPool::ThreadPool(int threads) {
  INVARIANT(threads >= 1);
  for (int worker = 1; worker < threads; worker++) {
    workers_.emplace_back([this, worker] { work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  state_.fetch_add(uint64_t{1} << 32);
  state_.notify_all();
  for (auto& worker : workers_) worker.join();
}

// Takes tasks of the current round until none is left; false = there was none.
bool ThreadPool::take_tasks(int worker) {
  bool took = false;
  uint64_t state = state_.load(std::memory_order_acquire);
  while (const uint64_t left = state & 0xffffffffu) {
    const Call call = call_.load(std::memory_order_relaxed);
    void* context = context_.load(std::memory_order_relaxed);
    const int64_t tasks = tasks_.load(std::memory_order_relaxed);
    if (!state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    took = true;
    call(context, tasks - static_cast<int64_t>(left), worker);
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == tasks) done_.notify_one();
    state = state_.load(std::memory_order_acquire);
  }
  return took;
}

void ThreadPool::run(int64_t tasks, Call call, void* context) {
  INVARIANT(tasks <= INT32_MAX);
  const uint64_t old = state_.load(std::memory_order_relaxed);
  INVARIANT((old & 0xffffffffu) == 0);
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  tasks_.store(tasks, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  state_.store((((old >> 32) + 1) << 32) | static_cast<uint64_t>(tasks));
  if (sleepers_.load() > 0) state_.notify_all();

  take_tasks(0);
  const auto finished = [&] { return done_.load(std::memory_order_acquire) == tasks; };
  if (spin_until(finished)) return;
  for (int64_t done = done_.load(); done != tasks; done = done_.load()) done_.wait(done);
}

void ThreadPool::work(int worker) {
  for (;;) {
    take_tasks(worker);
    const uint64_t state = state_.load(std::memory_order_acquire);
    // After the load: whoever stops the pool changes the state afterwards.
    if (stop_) return;
    if ((state & 0xffffffffu) != 0) continue;
    if (spin_until([&] { return state_.load(std::memory_order_acquire) != state; })) continue;
    sleepers_.fetch_add(1);
    state_.wait(state);
    sleepers_.fetch_sub(1);
  }
}

}  // namespace tandem
