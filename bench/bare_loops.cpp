// What the dot-product instructions of this machine can do for a quantised
// projection of 1536 x 576 (4-bit codes, a scale and a minimum for 32 columns),
// without anything around it: each loop in TOPS and as a share of its
// instruction's peak, which is measured in registers alone. A loop that the
// machine can't run says so.
//
//   bench_bare_loops [threads] [part of a loop's name]
#include <immintrin.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/kernels/amx.h"

// g++ 12 warns of its own intrinsics' deliberately undefined operands.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

using namespace tandem::cpu::amx;

namespace {

constexpr int64_t kRows = 1536;
constexpr int64_t kColumns = 576;
constexpr int64_t kGroups = kColumns / 32;
constexpr int64_t kTiles = kRows / 16;
constexpr int kBase = 16;  // of two terms: code = 16 * first + second

template <class T>
struct Buffer {  // zeroed, on a line
  explicit Buffer(int64_t count)
      : data(static_cast<T*>(std::aligned_alloc(4096, (count * sizeof(T) + 4095) / 4096 * 4096))) {
    std::memset(static_cast<void*>(data), 0, count * sizeof(T));
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T& operator[](int64_t i) { return data[i]; }
  const T& operator[](int64_t i) const { return data[i]; }
  T* data;
};

struct Problem {
  explicit Problem(int64_t tokens);
  float weight(int64_t row, int64_t k) const {
    const int64_t at = (row / 16 * kGroups + k / 32) * 16 + row % 16;
    return scale[at] * code(row, k) + min[at];
  }
  int code(int64_t row, int64_t k) const {
    const int64_t quad = k % 32 / 4;
    const uint8_t both =
        nibbles[((row / 16 * kGroups + k / 32) * 4 + quad / 2) * 64 + row % 16 * 4 + k % 4];
    return quad % 2 ? both >> 4 : both & 15;
  }

  int64_t tokens;
  Buffer<uint8_t> nibbles{kTiles * kGroups * 256};  // [tile][group][4][16 rows][4]
  Buffer<float> scale{kTiles * kGroups * 16};       // [tile][group][16]
  Buffer<float> min{kTiles * kGroups * 16};
  Buffer<float> x;          // [tokens][K]
  Buffer<int8_t> one;       // [group][tokens][32]
  Buffer<int8_t> two;       // [group][tokens][2][32]
  Buffer<int16_t> wide;     // [group][tokens][32], a quad's columns as 0 2 1 3
  Buffer<uint16_t> bf16;    // [group][tokens][32]
  Buffer<uint16_t> blocks;  // the same as [block of 32 tokens][group][32][32]
  Buffer<float> one_scale;  // [group][tokens]
  Buffer<float> one_sum;    // scale * sum of the codes
  Buffer<float> two_scale;
  Buffer<float> two_sum;
  mutable Buffer<float> out;  // [tokens][rows]
};

uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

Problem::Problem(int64_t n)
    : tokens(n),
      x(n * kColumns),
      one(n * kColumns),
      two(n * kColumns * 2),
      wide(n * kColumns),
      bf16(n * kColumns),
      blocks((n + 31) / 32 * 32 * kColumns),
      one_scale(n * kGroups),
      one_sum(n * kGroups),
      two_scale(n * kGroups),
      two_sum(n * kGroups),
      out(n * kRows) {
  uint32_t state = 1;
  const auto random = [&state] { return (state = state * 1664525 + 1013904223) >> 8; };
  for (int64_t i = 0; i < kTiles * kGroups * 256; i++) nibbles[i] = static_cast<uint8_t>(random());
  for (int64_t i = 0; i < kTiles * kGroups * 16; i++) {
    scale[i] = 0.01f + 1e-9f * static_cast<float>(random());
    min[i] = -8 * scale[i];
  }
  for (int64_t i = 0; i < n * kColumns; i++) x[i] = static_cast<float>(random()) / 8388608 - 1;
  for (int64_t t = 0; t < n; t++) {
    for (int64_t g = 0; g < kGroups; g++) {
      const float* group = x.data + t * kColumns + g * 32;
      float max = 0;
      for (int i = 0; i < 32; i++) max = std::max(max, std::fabs(group[i]));
      const int64_t at = g * n + t;
      one_scale[at] = max / 127;
      two_scale[at] = max / 2039;
      int one_total = 0, two_total = 0;
      for (int i = 0; i < 32; i++) {
        const int small = static_cast<int>(std::lrint(group[i] / one_scale[at]));
        const int large = static_cast<int>(std::lrint(group[i] / two_scale[at]));
        const int first = (large + kBase / 2) >> 4;
        one_total += small;
        two_total += large;
        one[at * 32 + i] = static_cast<int8_t>(small);
        two[at * 64 + i] = static_cast<int8_t>(first);
        two[at * 64 + 32 + i] = static_cast<int8_t>(large - kBase * first);
        wide[at * 32 + i / 4 * 4 + i % 2 * 2 + i % 4 / 2] = static_cast<int16_t>(large);
        bf16[at * 32 + i] = to_bf16(group[i]);
        blocks[((t / 32 * kGroups + g) * 32 + t % 32) * 32 + i] = to_bf16(group[i]);
      }
      one_sum[at] = one_scale[at] * static_cast<float>(one_total);
      two_sum[at] = two_scale[at] * static_cast<float>(two_total);
    }
  }
}

// One thread's memory: expanded weights of two tiles, drained sums.
struct Scratch {
  Buffer<uint8_t> weights{16 * kGroups * 1024};
  Buffer<int32_t> sums{2 * 6 * 2 * 256};
};

// A loop computes tiles [begin, end) of the problem.
using Loop = void (*)(const Problem& p, Scratch& scratch, int64_t begin, int64_t end);

}  // namespace

#define TANDEM_INLINE static inline __attribute__((always_inline))
#define TANDEM_UNROLL _Pragma("GCC unroll 32")
#if defined(__clang__)
#define TANDEM_TEXT(x) #x
#define TANDEM_TARGET(features) \
  _Pragma(TANDEM_TEXT(clang attribute push(__attribute__((target(features))), apply_to = function)))
#define TANDEM_TARGET_END _Pragma("clang attribute pop")
#else
#define TANDEM_TEXT(x) #x
#define TANDEM_TARGET(features) \
  _Pragma("GCC push_options") _Pragma(TANDEM_TEXT(GCC target(features)))
#define TANDEM_TARGET_END _Pragma("GCC pop_options")
#endif

// In this order: each uses the ones before.
// clang-format off
#include "bare_loops_avx2_inl.h"
#include "bare_loops_avx512_inl.h"
#include "bare_loops_amx_inl.h"
// clang-format on

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs fn(thread) on all threads at once, again and again; the best mean seconds.
template <class F>
double best_seconds(int threads, F&& fn) {
  double best = 1e9;
  int64_t repeats = 1;
  for (int round = 0; round < 7; round++) {
    std::atomic<int> ready{0};
    std::vector<std::thread> pool;
    std::vector<double> starts(threads), ends(threads);
    for (int i = 0; i < threads; i++) {
      pool.emplace_back([&, i] {
        fn(i);
        ready++;
        while (ready < threads) std::this_thread::yield();
        starts[i] = seconds_now();
        for (int64_t r = 0; r < repeats; r++) fn(i);
        ends[i] = seconds_now();
      });
    }
    for (std::thread& thread : pool) thread.join();
    const double total = *std::max_element(ends.begin(), ends.end()) -
                         *std::min_element(starts.begin(), starts.end());
    if (round > 0) best = std::min(best, total / static_cast<double>(repeats));
    if (round == 0) repeats = std::max<int64_t>(1, static_cast<int64_t>(0.03 / total));
  }
  return best;
}

// The loop's worst error over some outputs, relative to their size.
double worst_error(const Problem& p) {
  double worst = 0, size = 0;
  for (int64_t t = 0; t < p.tokens; t += std::max<int64_t>(1, p.tokens / 7)) {
    for (int64_t row = 0; row < kRows; row += 37) {
      double want = 0;
      for (int64_t k = 0; k < kColumns; k++) {
        want += double{p.weight(row, k)} * p.x[t * kColumns + k];
      }
      worst = std::max(worst, std::fabs(want - p.out[t * kRows + row]));
      size += want * want;
    }
  }
  const double count = std::ceil(double(p.tokens) / double(std::max<int64_t>(1, p.tokens / 7))) *
                       std::ceil(kRows / 37.0);
  return worst / std::sqrt(size / count);
}

struct Peak {
  const char* name;
  bool amx;
  double operations;  // of one call
  void (*run)();
};

struct Bench {
  const char* name;
  int peak;     // index into kPeaks
  double dots;  // dots of the instruction for one of the product
  bool exact;   // false: not the product's value, only its work
  Loop few[3];  // 1, 4 and 16 tokens
  Loop many;    // 512
};

const Peak kPeaks[] = {
    {"avx2 vpmaddwd + vpaddd", false, kAvx2WideOps, &peak_avx2_wide},
    {"avx2 vpmaddubsw + vpaddw", false, kAvx2ByteOps, &peak_avx2_bytes},
    {"avx-512 vpdpbusd", false, kVnniOps, &peak_vnni},
    {"avx-512 vpdpwssd", false, kVnniWideOps, &peak_vnni_wide},
    {"avx-512 vdpbf16ps", false, kDotBf16Ops, &peak_dot_bf16},
    {"amx tdpbsud", true, kTileOps, &peak_tile_bytes},
    {"amx tdpbf16ps", true, kTileOps / 2, &peak_tile_bf16},
};

const Bench kBenches[] = {
    {"avx2, two terms as int16",
     0,
     1,
     true,
     {&avx2_wide<1>, &avx2_wide<4>, &avx2_wide<4>},
     &avx2_wide<4>},
    {"avx2, one term",
     1,
     1,
     true,
     {&avx2_bytes<1, 1>, &avx2_bytes<4, 1>, &avx2_bytes<4, 1>},
     &avx2_bytes<4, 1>},
    {"avx2, two terms",
     1,
     2,
     true,
     {&avx2_bytes<1, 2>, &avx2_bytes<2, 2>, &avx2_bytes<2, 2>},
     &avx2_bytes<2, 2>},
    {"vnni, one term",
     2,
     1,
     true,
     {&vnni_bytes<1, 1>, &vnni_bytes<4, 1>, &vnni_bytes<6, 1>},
     &vnni_bytes<6, 1>},
    {"vnni, two terms",
     2,
     2,
     true,
     {&vnni_bytes<1, 2>, &vnni_bytes<4, 2>, &vnni_bytes<6, 2>},
     &vnni_bytes<6, 2>},
    {"vnni, two terms as int16",
     3,
     1,
     true,
     {&vnni_wide<1>, &vnni_wide<4>, &vnni_wide<6>},
     &vnni_wide<6>},
    {"vdpbf16ps", 4, 1, true, {&dot_bf16<1>, &dot_bf16<4>, &dot_bf16<6>}, &dot_bf16<6>},
    {"amx int8, 2x2, no scales",
     5,
     1,
     false,
     {nullptr, nullptr, nullptr},
     &amx_bare<true, 0, kBlockStep>},
    {"amx int8, one term, drained by 1",
     5,
     2,
     true,
     {&amx_bytes<1, 1, 1>, &amx_bytes<4, 1, 1>, &amx_bytes<16, 1, 1>},
     &amx_bytes<16, 1, 1>},
    {"amx int8, one term, drained by 3",
     5,
     2,
     true,
     {&amx_bytes<1, 1, 3>, &amx_bytes<4, 1, 3>, &amx_bytes<16, 1, 3>},
     &amx_bytes<16, 1, 3>},
    {"amx int8, two terms, drained by 1",
     5,
     4,
     true,
     {&amx_bytes<1, 2, 1>, &amx_bytes<4, 2, 1>, &amx_bytes<16, 2, 1>},
     &amx_bytes<16, 2, 1>},
    {"amx int8, two terms, drained by 3",
     5,
     4,
     true,
     {&amx_bytes<1, 2, 3>, &amx_bytes<4, 2, 3>, &amx_bytes<16, 2, 3>},
     &amx_bytes<16, 2, 3>},
    {"amx int8, two terms in one dot, drained by 1",
     5,
     2,
     true,
     {&amx_bytes<1, 0, 1>, &amx_bytes<4, 0, 1>, &amx_bytes<16, 0, 1>},
     &amx_bytes<16, 0, 1>},
    {"amx int8, two terms in one dot, drained by 3",
     5,
     2,
     true,
     {&amx_bytes<1, 0, 3>, &amx_bytes<4, 0, 3>, &amx_bytes<16, 0, 3>},
     &amx_bytes<16, 0, 3>},
    {"amx bf16, 2x2",
     6,
     1,
     true,
     {&amx_bf16<1, 0>, &amx_bf16<4, 0>, &amx_bf16<16, 0>},
     &amx_bf16<32, 0>},
    {"amx bf16, 18 steps",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<18, false, 0, false>},
    {"amx bf16, 18 steps, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<18, false, 0, true>},
    {"amx bf16, 18 steps, ahead 2",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<18, false, 2, false>},
    {"amx bf16, 18 steps, ahead 2, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<18, false, 2, true>},
    {"amx bf16, 18 steps, streamed",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<18, true, 0, false>},
    {"amx bf16, 18 steps, streamed, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<18, true, 0, true>},
    {"amx bf16, 9 steps",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<9, false, 0, false>},
    {"amx bf16, 9 steps, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<9, false, 0, true>},
    {"amx bf16, 9 steps, ahead 2",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<9, false, 2, false>},
    {"amx bf16, 9 steps, ahead 2, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<9, false, 2, true>},
    {"amx bf16, 9 steps, streamed",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<9, true, 0, false>},
    {"amx bf16, 9 steps, streamed, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<9, true, 0, true>},
    {"amx bf16, 6 steps",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<6, false, 0, false>},
    {"amx bf16, 6 steps, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<6, false, 0, true>},
    {"amx bf16, 6 steps, ahead 2",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<6, false, 2, false>},
    {"amx bf16, 6 steps, ahead 2, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<6, false, 2, true>},
    {"amx bf16, 6 steps, streamed",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<6, true, 0, false>},
    {"amx bf16, 6 steps, streamed, fetched",
     6,
     1,
     true,
     {nullptr, nullptr, nullptr},
     &amx_bf16_parts<6, true, 0, true>},
    {"amx bf16, no expansion",
     6,
     1,
     false,
     {nullptr, nullptr, nullptr},
     &amx_bare<false, 0, kBlockStep>},
    {"amx bf16, first cache only",
     6,
     1,
     false,
     {nullptr, nullptr, nullptr},
     &amx_bare<false, 0, 0>},
};

// fn in a child, so that an instruction that the machine lacks ends only that.
template <class F>
bool in_child(F&& fn) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    fn();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Totals {  // shared with the children
  double peak[std::size(kPeaks)];
};

double peak_tops(const Peak& peak, int threads) {
  return peak.operations / best_seconds(threads, [&](int) { peak.run(); }) * threads / 1e12;
}

void measure(const Bench& bench, const Problem& p, Loop loop, double peak, int threads) {
  std::vector<Scratch> scratch(threads);
  const double seconds = best_seconds(threads, [&](int i) {
    loop(p, scratch[i], kTiles * i / threads / 2 * 2, kTiles * (i + 1) / threads / 2 * 2);
  });
  const double tops = 2.0 * double(p.tokens * kRows * kColumns) / seconds / 1e12;
  std::printf("  %3ld: %6.3f (%2.0f%%)", long(p.tokens), tops, 100 * tops * bench.dots / peak);
  if (!bench.exact) return;
  const double error = worst_error(p);
  if (!(error < 0.05)) std::printf(" WRONG: %g", error);
}

void report(const Bench& bench, const std::vector<Problem*>& problems, double peak, int threads) {
  std::printf("%-32s", bench.name);
  if (peak == 0 || !in_child([&] {
        for (size_t i = 0; i < problems.size(); i++) {
          const Loop loop = i < 3 ? bench.few[i] : bench.many;
          if (loop) measure(bench, *problems[i], loop, peak, threads);
        }
      })) {
    std::printf("  not on this machine");
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : 1;
  const bool tiles = permit();
  std::vector<Problem*> problems;
  for (const int64_t tokens : {1, 4, 16, 512}) problems.push_back(new Problem(tokens));
  std::printf("%d thread(s); %ld x %ld; tokens: TOPS (share of the instruction's peak)\n", threads,
              long(kRows), long(kColumns));
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 1;
  Totals totals{};
  for (size_t i = 0; i < std::size(kPeaks); i++) {
    if (kPeaks[i].amx && !tiles) continue;
    const bool ran = in_child([&] {
      const double tops = peak_tops(kPeaks[i], threads);
      if (write(pipe_ends[1], &tops, sizeof tops) != sizeof tops) _exit(1);
    });
    if (ran && read(pipe_ends[0], &totals.peak[i], sizeof(double)) != sizeof(double)) return 1;
    std::printf("%-32s  peak %.3f\n", kPeaks[i].name, totals.peak[i]);
  }
  const std::string wanted = argc > 2 ? argv[2] : "";
  for (const Bench& bench : kBenches) {
    if (std::string(bench.name).find(wanted) == std::string::npos) continue;
    report(bench, problems, totals.peak[bench.peak], threads);
  }
  for (Problem* problem : problems) delete problem;
}
