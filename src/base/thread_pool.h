// A persistent pool for kernels: one caller hands out short loops, many a
// millisecond. Workers spin briefly for the next loop and then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace tandem {

// Physical cores this process may use: its affinity mask and its control
// group's quota, two hardware threads of one core counted once. At least 1.
int physical_cores();

class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts no worker.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(task, worker) for every task in [0, tasks), worker in
  // [0, threads()), and returns when all are done. Tasks are taken in ascending
  // order, one by one, by whoever is free; a worker that the system does not
  // run holds nobody up. From one thread at a time; fn must not throw nor call
  // parallel_for.
  template <class F>
  void parallel_for(int64_t tasks, F&& fn) {
    if (tasks <= 1 || workers_.empty()) {
      for (int64_t task = 0; task < tasks; task++) fn(task, 0);
      return;
    }
    using Fn = std::remove_reference_t<F>;
    run(
        tasks,
        [](void* context, int64_t task, int worker) { (*static_cast<Fn*>(context))(task, worker); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using Call = void (*)(void* context, int64_t task, int worker);

  void run(int64_t tasks, Call call, void* context);
  void work(int worker);
  bool take_tasks(int worker);

  // Round in the upper half, tasks not yet taken in the lower. A task is taken
  // by lowering the count; while it is above 0 the fields below are stable.
  alignas(64) std::atomic<uint64_t> state_{0};
  std::atomic<int64_t> tasks_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace tandem
