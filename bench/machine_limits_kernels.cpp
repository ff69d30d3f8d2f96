#include "machine_limits_kernels.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

constexpr int kLoops = 4096;
constexpr int kSums = 10;  // independent ones, to hide the latency of an instruction

void read_words(const char* from, size_t bytes) {
  uint64_t sum = 0, word = 0;
  for (size_t at = 0; at < bytes; at += sizeof word) {
    std::memcpy(&word, from + at, sizeof word);
    sum |= word;
  }
  __asm__ volatile("" : "+r"(sum));
}

#if defined(__x86_64__)

// The value may have changed, says this to the compiler, which must then compute with it anew.
#define CHANGED(value) __asm__ volatile("" : "+v"(value))

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw")))
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define AMX __attribute__((target("amx-tile,amx-int8,amx-bf16")))

// Lines of four places are read in turns, which keeps more of them on their way than one.
AVX2 void read_avx2(const char* from, size_t bytes) {
  __m256i sum = _mm256_setzero_si256();
  const size_t part = bytes / 4;
  for (size_t at = 0; at < part; at += 64)
    for (int place = 0; place < 4; ++place) {
      const auto* line = reinterpret_cast<const __m256i*>(from + place * part + at);
      sum = _mm256_or_si256(sum,
                            _mm256_or_si256(_mm256_load_si256(line), _mm256_load_si256(line + 1)));
    }
  CHANGED(sum);
}

AVX512 void read_avx512(const char* from, size_t bytes) {
  __m512i sum = _mm512_setzero_si512();
  const size_t part = bytes / 4;
  for (size_t at = 0; at < part; at += 64)
    for (int place = 0; place < 4; ++place)
      sum = _mm512_or_si512(sum, _mm512_load_si512(from + place * part + at));
  CHANGED(sum);
}

AVX2 double dot_avx2_int8() {
  __m256i sums[kSums] = {}, a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-2);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int i = 0; i < kLoops; ++i)
    for (auto& sum : sums) {
      CHANGED(a);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  for (auto& sum : sums) CHANGED(sum);
  return 2.0 * 32 * kSums * kLoops;
}

AVX2 double dot_avx2_f32() {
  __m256 sums[kSums] = {}, a = _mm256_set1_ps(1.5f), b = _mm256_set1_ps(0.5f);
  for (int i = 0; i < kLoops; ++i)
    for (auto& sum : sums) sum = _mm256_fmadd_ps(a, b, sum);
  for (auto& sum : sums) CHANGED(sum);
  return 2.0 * 8 * kSums * kLoops;
}

AVX512 double dot_avx512_f32() {
  __m512 sums[kSums] = {}, a = _mm512_set1_ps(1.5f), b = _mm512_set1_ps(0.5f);
  for (int i = 0; i < kLoops; ++i)
    for (auto& sum : sums) sum = _mm512_fmadd_ps(a, b, sum);
  for (auto& sum : sums) CHANGED(sum);
  return 2.0 * 16 * kSums * kLoops;
}

VNNI double dot_vnni_int8() {
  __m512i sums[kSums] = {}, a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-2);
  for (int i = 0; i < kLoops; ++i)
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  for (auto& sum : sums) CHANGED(sum);
  return 2.0 * 64 * kSums * kLoops;
}

BF16 double dot_avx512_bf16() {
  __m512 sums[kSums] = {};
  const __m512i halves = _mm512_set1_epi16(0x3f80);  // 1.0
  const auto a = reinterpret_cast<__m512bh>(halves);
  for (int i = 0; i < kLoops; ++i)
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, a, a);
  for (auto& sum : sums) CHANGED(sum);
  return 2.0 * 32 * kSums * kLoops;
}

struct TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Sums in tiles 0 to 3, operands in 4 to 7, as a product of 2 x 2 tiles uses them.
#define TILE_PRODUCTS(instruction) \
  instruction(0, 4, 6);            \
  instruction(1, 4, 7);            \
  instruction(2, 5, 6);            \
  instruction(3, 5, 7)

AMX void configure_tiles() {
  const TileConfig config;
  // The intrinsic of g++ 12 does not tell that it reads the configuration.
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

AMX double dot_amx_int8() {
  configure_tiles();
  for (int i = 0; i < kLoops; ++i) {
    TILE_PRODUCTS(_tile_dpbusd);
  }
  _tile_release();
  return 4.0 * kLoops * 2 * 16 * 16 * 64;
}

AMX double dot_amx_bf16() {
  configure_tiles();
  for (int i = 0; i < kLoops; ++i) {
    TILE_PRODUCTS(_tile_dpbf16ps);
  }
  _tile_release();
  return 4.0 * kLoops * 2 * 16 * 16 * 32;
}

bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kTileInt8Bf16 = 1u << 24 | 1u << 25 | 1u << 22;
  return (d & kTileInt8Bf16) == kTileInt8Bf16 &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#endif

}  // namespace

ReadKernel read_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw")) return read_avx512;
  if (__builtin_cpu_supports("avx2")) return read_avx2;
#endif
  return read_words;
}

std::vector<DotKernel> dot_kernels() {
  std::vector<DotKernel> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back({"avx2_int8", dot_avx2_int8});
    found.push_back({"avx2_f32", dot_avx2_f32});
  }
  if (__builtin_cpu_supports("avx512bw")) found.push_back({"avx512_f32", dot_avx512_f32});
  if (__builtin_cpu_supports("avx512vnni")) found.push_back({"avx512_vnni_int8", dot_vnni_int8});
  if (__builtin_cpu_supports("avx512bf16")) found.push_back({"avx512_bf16", dot_avx512_bf16});
  if (may_use_tiles()) {
    found.push_back({"amx_int8", dot_amx_int8});
    found.push_back({"amx_bf16", dot_amx_bf16});
  }
#endif
  return found;
}
