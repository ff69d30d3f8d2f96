// Which instruction set the kernels use. Chosen once, when a backend is made.
#pragma once

#include <string>
#include <vector>

namespace tandem::cpu {

enum class Isa { kScalar, kAvx2, kAvx512 };

// "scalar", "avx2", "avx512": the values of TANDEM_ISA.
const char* isa_name(Isa isa);

// What this build and this machine can run, slowest first. AVX2 means AVX2, FMA
// and F16C; AVX-512 means F, BW, DQ, VL and VNNI; both with the system's support.
const std::vector<Isa>& available_isas();

// The fastest one, or the one that `forced` (the value of TANDEM_ISA) names;
// empty forces nothing. Throws Error(kInvalid) naming the possible values.
Isa choose_isa(const std::string& forced);

}  // namespace tandem::cpu
