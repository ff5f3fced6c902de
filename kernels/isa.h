// SPDX-License-Identifier: Apache-2.0
// The instruction sets that kernels are compiled for, and which of them this machine runs.
#pragma once

namespace bascule {

// kScalar is plain C++ for any CPU: for checking the others, not for speed.
enum class Isa : int {
#define BASCULE_INSTRUCTION_SET(enumerator, name) enumerator,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
};

constexpr Isa kAllIsas[] = {
#define BASCULE_INSTRUCTION_SET(enumerator, name) Isa::enumerator,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
};

// The name of isas.inc.
constexpr const char* isa_name(Isa isa) {
  constexpr const char* kNames[] = {
#define BASCULE_INSTRUCTION_SET(enumerator, name) #name,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
  };
  return kNames[static_cast<int>(isa)];
}

// Whether this build has kernels for the set and CPU and operating system run them.
bool isa_supported(Isa isa);
// The fastest supported set of those that have all kernels: on x86-64 never kScalar, unless machine_runs_bascule() is
// false.
Isa best_isa();
// The set that has the kernels which `isa` does not have: best_isa() of kAmx, itself of any other.
Isa set_of_all_kernels(Isa isa);
// Whether the CPU has tiles (AMX). The system may still refuse them to a process: then isa_supported(kAmx) is false.
bool cpu_has_tiles();
// On x86-64: whether AVX2 and FMA are there, which all kernels are compiled with.
bool machine_runs_bascule();

}  // namespace bascule
