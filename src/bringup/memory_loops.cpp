// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/memory_loops.h"

namespace bascule {

#define BASCULE_COMPILED_ONLY
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  namespace name {                                \
  extern const MemoryLoops kMemoryLoops;          \
  }
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET

const MemoryLoops& memory_loops_for(Isa isa) {
  switch (set_of_all_kernels(isa)) {
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  case Isa::enumerator:                           \
    return name::kMemoryLoops;
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
    default: return scalar::kMemoryLoops;
  }
}

}  // namespace bascule
