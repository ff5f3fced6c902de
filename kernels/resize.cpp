// SPDX-License-Identifier: Apache-2.0
#include "kernels/resize.h"

#define BASCULE_COMPILED_ONLY

namespace bascule {

// Each is defined by simd/resize.cpp, compiled for its ISA.
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  namespace name {                                \
  extern const ResizeKernels kResizeKernels;      \
  }
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET

const ResizeKernels& resize_kernels_for(Isa isa) {
  static constexpr const ResizeKernels* kTables[] = {
#define BASCULE_INSTRUCTION_SET(enumerator, name) &name::kResizeKernels,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
  };
  return *kTables[static_cast<int>(set_of_all_kernels(isa))];
}

}  // namespace bascule
