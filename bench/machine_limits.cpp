// Measures what this machine can do at best, for comparison with what a model gets of it:
// reading memory over buffers of given sizes, and dot products by instruction set.
//
//   machine_limits THREADS BYTES...
//
// Prints one JSON object: read, GB/s of all threads together for each size; dot, 1e12 operations a
// second (a multiply and an add are two) for each instruction that the machine has.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "machine_limits_kernels.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsMin = 0.1;  // of one measurement
constexpr int kTries = 3;            // the best counts

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Work that all threads did together, a second: each repeats body(thread), which says how much it
// did, until time is up.
double rate(int threads, const std::function<double(int)>& body) {
  double best = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::atomic<int> ready = 0;
    std::vector<double> rates(threads);
    const auto work = [&](int thread) {
      body(thread);  // brings buffers and clocks up
      ready.fetch_add(1);
      while (ready.load() < threads) std::this_thread::yield();
      const auto begin = Clock::now();
      double done = 0;
      do done += body(thread);
      while (seconds_since(begin) < kSecondsMin);
      rates[thread] = done / seconds_since(begin);
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
    for (auto& other : others) other.join();
    double sum = 0;
    for (const double each : rates) sum += each;
    best = std::max(best, sum);
  }
  return best;
}

double read_gbps(int threads, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  const size_t slice = bytes / threads / kReadBlock * kReadBlock;
  const auto read = read_kernel();
  const double per_second = rate(threads, [&](int thread) {
    read(static_cast<const char*>(memory) + slice * thread, slice);
    return static_cast<double>(slice);
  });
  munmap(memory, bytes);
  return per_second / 1e9;
}

// 0 when the text is no number.
size_t number(const char* text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc() && *end == '\0' ? value : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t threads = argc > 1 ? number(argv[1]) : 0;
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(number(argv[i]));
  const auto too_small = [&](size_t size) { return size < threads * kReadBlock; };
  if (threads < 1 || threads > 1024 || std::any_of(sizes.begin(), sizes.end(), too_small)) {
    std::fprintf(stderr, "usage: machine_limits THREADS BYTES...\n");
    return 2;
  }
  const int count = static_cast<int>(threads);
  std::string read, dot;
  char item[96];
  for (const size_t size : sizes) {
    std::snprintf(item, sizeof item, "%s{\"bytes\": %zu, \"gbps\": %.2f}", read.empty() ? "" : ", ",
                  size, read_gbps(count, size));
    read += item;
  }
  for (const DotKernel& kernel : dot_kernels()) {
    const double per_second = rate(count, [&](int) { return kernel.run(); });
    std::snprintf(item, sizeof item, "%s\"%s\": %.4f", dot.empty() ? "" : ", ", kernel.name,
                  per_second / 1e12);
    dot += item;
  }
  std::printf("{\"threads\": %d, \"read\": [%s], \"dot\": {%s}}\n", count, read.c_str(),
              dot.c_str());
  return 0;
}
