// The loops behind machine_limits, chosen at run time by what the processor has.
#pragma once

#include <cstddef>
#include <vector>

// Reads `bytes` (a multiple of kReadBlock) from an aligned address.
using ReadKernel = void (*)(const char* from, size_t bytes);
constexpr size_t kReadBlock = 4096;
ReadKernel read_kernel();

struct DotKernel {
  const char* name;  // instruction set and operands: "avx512_vnni_int8"
  double (*run)();   // runs for some microseconds and says how many operations that were
};

// Those that this processor has, with the permission of the system where that is needed. They
// work on registers alone.
std::vector<DotKernel> dot_kernels();
