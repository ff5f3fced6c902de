// SPDX-License-Identifier: Apache-2.0
#include "kernels/table.h"

#define BASCULE_COMPILED_ONLY

namespace bascule {

// Each is defined by simd/table.cpp, compiled for its ISA.
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  namespace name {                                \
  extern const KernelTable kTable;                \
  }
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET

const KernelTable& kernels_for(Isa isa) {
  static constexpr const KernelTable* kTables[] = {
#define BASCULE_INSTRUCTION_SET(enumerator, name) &name::kTable,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
  };
  return *kTables[static_cast<int>(isa)];
}

}  // namespace bascule
