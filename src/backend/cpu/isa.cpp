#include "backend/cpu/isa.h"

#include "base/error.h"

#if defined(TANDEM_X86)
#include <cpuid.h>
#endif

namespace tandem::cpu {
namespace {

std::vector<Isa> detect() {
  std::vector<Isa> isas = {Isa::kScalar};
#if defined(TANDEM_X86)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return isas;
  const bool osxsave = c & bit_OSXSAVE;
  if (!osxsave || !(c & bit_AVX) || !(c & bit_FMA) || !(c & bit_F16C)) return isas;
  // The registers that the system saves: 6 = xmm and ymm, e6 = also masks and zmm.
  unsigned xcr0 = 0, xcr0_high = 0;
  __asm__("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return isas;
  if ((xcr0 & 0x6) != 0x6 || !(b & bit_AVX2)) return isas;
  isas.push_back(Isa::kAvx2);
  const unsigned wanted = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  if ((xcr0 & 0xe6) == 0xe6 && (b & wanted) == wanted && (c & bit_AVX512VNNI)) {
    isas.push_back(Isa::kAvx512);
  }
#endif
  return isas;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "?";
}

const std::vector<Isa>& available_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Isa choose_isa(const std::string& forced) {
  const auto& isas = available_isas();
  if (forced.empty()) return isas.back();
  std::string names;
  for (const Isa isa : isas) {
    if (forced == isa_name(isa)) return isa;
    names += names.empty() ? isa_name(isa) : std::string(", ") + isa_name(isa);
  }
  throw Error(ErrorCode::kInvalid,
              "TANDEM_ISA is '" + forced + "', but this build on this machine has: " + names);
}

}  // namespace tandem::cpu
