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
// The fastest supported set: on x86-64 never kScalar, unless machine_runs_bascule() is false.
Isa best_isa();
// On x86-64: whether AVX2 and FMA are there, which all kernels are compiled with.
bool machine_runs_bascule();

}  // namespace bascule
