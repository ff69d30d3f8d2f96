// The AMX tile registers as plain functions: eight registers tmm0 to tmm7 of up
// to 16 rows of 64 bytes. Inline assembly, since g++ 12's tile intrinsics say
// nothing of the memory they read, so that stores before them may be lost.
// Calling them needs permit() first, in one thread for the whole process,
// and a loaded TileConfig in each thread.
#pragma once

#include <cstdint>

#if defined(TANDEM_X86)
#include <sys/syscall.h>
#include <unistd.h>

namespace tandem::cpu::amx {

// Rows and bytes a row of each register, as ldtilecfg reads them.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int tile_rows, int tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

// Asks the system for the tile registers' state. Threads made later inherit it.
inline bool permit() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

inline void tile_config(const TileConfig& config) {
  __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
// Puts all registers back to their first state, which costs the system nothing
// to save.
inline void tile_release() { __asm__ volatile("tilerelease" : : : "memory"); }

template <int kTile>
inline __attribute__((always_inline)) void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
inline __attribute__((always_inline)) void tile_load(const void* p, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
}
// The same for memory that is not met again soon.
template <int kTile>
inline __attribute__((always_inline)) void tile_stream(const void* p, int64_t stride) {
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(p), "r"(stride), "i"(kTile)
                   : "memory");
}
template <int kTile>
inline __attribute__((always_inline)) void tile_store(void* p, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
}
// kSum += signed bytes of kA times unsigned bytes of kB, four at once.
template <int kSum, int kA, int kB>
inline __attribute__((always_inline)) void tile_dot_bytes() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}
// kSum += bf16 of kA times bf16 of kB, two at once.
template <int kSum, int kA, int kB>
inline __attribute__((always_inline)) void tile_dot_bf16() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace tandem::cpu::amx

#endif  // TANDEM_X86
