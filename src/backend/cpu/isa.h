// Which instruction set the kernels use. Chosen once, when a backend is made.
#pragma once

#include <string>
#include <vector>

namespace tandem::cpu {

// kAmxEmulated is kAmx with its tile registers in software: the same results, slowly,
// on any machine. For tests.
enum class Isa { kScalar, kAvx2, kAvx512, kAmx, kAmxEmulated };

// "scalar", "avx2", "avx512", "amx", "amx-emulated": the values of TANDEM_ISA.
const char* isa_name(Isa isa);

// What this build and this machine can run, slowest first. AVX2 means AVX2, FMA
// and F16C; AVX-512 means F, BW, DQ, VL and VNNI; AMX means AVX-512 and tiles of
// bf16; all with the system's support. Asks the system for the tile registers.
const std::vector<Isa>& available_isas();
// The processor has tiles, but the system does not let this process use them.
bool tiles_refused();

// The same, and the emulation.
std::vector<Isa> testable_isas();

// What kernels without tiles use beside `isa`.
Isa vector_isa(Isa isa);

// The fastest one, or the one that `forced` (the value of TANDEM_ISA) names;
// empty forces nothing. Throws Error(kInvalid) naming the possible values.
Isa choose_isa(const std::string& forced);

}  // namespace tandem::cpu
