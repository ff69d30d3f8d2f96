// Compiles TANDEM_BODY (a kernels/<op>_inl.h) once for each instruction set,
// in namespaces tandem::cpu::scalar, ::avx2 and ::avx512, behind the vector
// types of simd_inl.h. Target regions, not per-file flags: code that the rest
// of the program shares must never be compiled for a CPU that may be absent.
// So a body calls no std template; only plain loops, intrinsics and its own.
//
// No include guard: each <op>.cpp defines TANDEM_BODY and includes this once.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/stored.h"
#if defined(TANDEM_X86)
#include <immintrin.h>
#endif

// g++ 12 warns of its own intrinsics' deliberately undefined operands.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define TANDEM_INLINE static inline __attribute__((always_inline))

#define TANDEM_SIMD_SCALAR 1
namespace tandem::cpu::scalar {
#include "backend/cpu/kernels/simd_inl.h"
#include TANDEM_BODY
}  // namespace tandem::cpu::scalar
#undef TANDEM_SIMD_SCALAR

#if defined(TANDEM_X86)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#define TANDEM_SIMD_AVX2 1
namespace tandem::cpu::avx2 {
#include "backend/cpu/kernels/simd_inl.h"
#include TANDEM_BODY
}  // namespace tandem::cpu::avx2
#undef TANDEM_SIMD_AVX2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                               \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif
#define TANDEM_SIMD_AVX512 1
namespace tandem::cpu::avx512 {
#include "backend/cpu/kernels/simd_inl.h"
#include TANDEM_BODY
}  // namespace tandem::cpu::avx512
#undef TANDEM_SIMD_AVX512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // TANDEM_X86

#undef TANDEM_BODY
