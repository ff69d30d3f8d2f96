#include "backend/cpu/isa.h"

#include "base/error.h"

#if defined(TANDEM_X86)
#include <cpuid.h>

#include "backend/cpu/kernels/amx.h"
#endif

namespace tandem::cpu {
namespace {

struct Found {
  std::vector<Isa> isas = {Isa::kScalar};
  bool tiles_refused = false;
};

Found detect() {
  Found found;
  [[maybe_unused]] std::vector<Isa>& isas = found.isas;
#if defined(TANDEM_X86)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const bool osxsave = c & bit_OSXSAVE;
  if (!osxsave || !(c & bit_AVX) || !(c & bit_FMA) || !(c & bit_F16C)) return found;
  // The registers that the system saves: 6 = xmm and ymm, e6 = also masks and zmm.
  unsigned xcr0 = 0, xcr0_high = 0;
  __asm__("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  if ((xcr0 & 0x6) != 0x6 || !(b & bit_AVX2)) return found;
  isas.push_back(Isa::kAvx2);
  const unsigned wanted = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  if ((xcr0 & 0xe6) == 0xe6 && (b & wanted) == wanted && (c & bit_AVX512VNNI)) {
    isas.push_back(Isa::kAvx512);
    constexpr unsigned kTiles = 1u << 24 | 1u << 22;  // tiles, of bf16
    if ((d & kTiles) == kTiles && (xcr0 & 0x60000) == 0x60000) {
      found.tiles_refused = !amx::permit();
      if (!found.tiles_refused) isas.push_back(Isa::kAmx);
    }
  }
#endif
  return found;
}

const Found& found() {
  static const Found found = detect();
  return found;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAmx: return "amx";
    case Isa::kAmxEmulated: return "amx-emulated";
  }
  return "?";
}

const std::vector<Isa>& available_isas() { return found().isas; }

bool tiles_refused() { return found().tiles_refused; }

std::vector<Isa> testable_isas() {
  std::vector<Isa> isas = available_isas();
  isas.push_back(Isa::kAmxEmulated);
  return isas;
}

Isa vector_isa(Isa isa) {
  if (isa == Isa::kAmx) return Isa::kAvx512;
  if (isa != Isa::kAmxEmulated) return isa;
  const Isa best = available_isas().back();
  return best == Isa::kAmx ? Isa::kAvx512 : best;
}

Isa choose_isa(const std::string& forced) {
  if (forced.empty()) return available_isas().back();
  std::string names;
  for (const Isa isa : testable_isas()) {
    if (forced == isa_name(isa)) return isa;
    names += names.empty() ? isa_name(isa) : std::string(", ") + isa_name(isa);
  }
  throw Error(ErrorCode::kInvalid,
              "TANDEM_ISA is '" + forced + "', but this build on this machine has: " + names);
}

}  // namespace tandem::cpu
