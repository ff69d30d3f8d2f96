#include "base/thread_pool.h"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>

using namespace tandem;

TEST_CASE("every task runs once, whatever the number of threads") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(tasks);
      pool.parallel_for(tasks, [&](int64_t task, int worker) {
        runs[task]++;
        if (worker < 0 || worker >= threads) runs[task] += 100;
      });
      for (const auto& count : runs) CHECK(count == 1);
    }
  }
}

TEST_CASE("a loop sees what the loop before wrote") {
  ThreadPool pool(4);
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 2000; round++) {
    pool.parallel_for(64, [&](int64_t task, int) { values[task]++; });
  }
  CHECK(std::accumulate(values.begin(), values.end(), int64_t{0}) == 64 * 2000);
}

TEST_CASE("workers that fell asleep wake for the next loop") {
  ThreadPool pool(3);
  std::atomic<int> runs{0};
  for (int round = 0; round < 5; round++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.parallel_for(16, [&](int64_t, int) { runs++; });
  }
  CHECK(runs == 5 * 16);
}

TEST_CASE("a pool may go while its workers sleep or spin") {
  for (int i = 0; i < 300; i++) {
    ThreadPool pool(4);
    if (i % 10 == 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (i % 3 == 0) pool.parallel_for(4, [](int64_t, int) {});
  }
  CHECK(physical_cores() >= 1);
}
