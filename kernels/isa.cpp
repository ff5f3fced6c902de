// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa.h"

#if defined(__x86_64__)
#if defined(__clang__)
#define _Bool bool  // of C, which the C library's header says in C++ too; NOLINT(readability-identifier-naming)
#endif
#include <sys/platform/x86.h>
#undef _Bool
#include <sys/syscall.h>
#include <unistd.h>
#endif

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
bool has_avx512_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

// Whether VDPBF16PS is faster than the two fused multiply-adds that have its bits: on AMD's CPUs twice as fast, on
// Intel's Sapphire Rapids it takes twice as long.
bool has_fast_dot_products() { return __builtin_cpu_is("amd"); }

// The kernel gives a process the memory of its tiles when it asks for them, and its threads inherit that.
bool asks_for_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool is_granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_granted;
}

}  // namespace

// The C library's answer, from CPUID and XCR0; tests/support/emulated_tiles.cpp gives another.
bool cpu_has_tiles() { return x86_cpu_active(x86_cpu_AMX_TILE) && x86_cpu_active(x86_cpu_AMX_BF16); }

bool isa_supported(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kAmx: return has_avx2() && cpu_has_tiles() && asks_for_tiles();
    case Isa::kAvx512Bf16: return has_avx512_bf16();
    case Isa::kAvx512: return has_avx512();
    default: return has_avx2();
  }
}

#else

namespace {
bool has_fast_dot_products() { return false; }
}  // namespace

bool cpu_has_tiles() { return false; }
bool isa_supported(Isa isa) { return isa == Isa::kScalar; }

#endif

Isa best_isa() {
  Isa best = Isa::kScalar;
  for (const Isa isa : kAllIsas) {
    if (isa == Isa::kAmx) continue;
    if (isa_supported(isa) && (isa != Isa::kAvx512Bf16 || has_fast_dot_products())) best = isa;
  }
  return best;
}

Isa set_of_all_kernels(Isa isa) { return isa == Isa::kAmx ? best_isa() : isa; }

bool machine_runs_bascule() { return isa_supported(Isa::kScalar); }

}  // namespace bascule
