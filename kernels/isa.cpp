// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa.h"

namespace bascule {

#if defined(__x86_64__)

namespace {

// The levels x86-64-v3 and x86-64-v4 that the ISA libraries are compiled for, by the members that both compilers can
// ask for; no processor has these without the rest (movbe, f16c, lzcnt). Whether the system saves the registers is part
// of the answer.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

bool isa_supported(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kAvx512Bf16: return has_avx512() && __builtin_cpu_supports("avx512bf16");
    case Isa::kAvx512: return has_avx512();
    default: return has_avx2();
  }
}

#else

bool isa_supported(Isa isa) { return isa == Isa::kScalar; }

#endif

Isa best_isa() {
  Isa best = Isa::kScalar;
  for (const Isa isa : kAllIsas) {
    if (isa_supported(isa)) best = isa;
  }
  return best;
}

bool machine_runs_bascule() { return isa_supported(Isa::kScalar); }

}  // namespace bascule
