// SPDX-License-Identifier: Apache-2.0
// The table of this ISA. Initialised by constants, so that nothing of an ISA library runs unless it is called.
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {

namespace {

#if defined(__AVX512F__)
constexpr Isa kIsa = Isa::kAvx512;
#else
constexpr Isa kIsa = Isa::kAvx2;
#endif

}  // namespace

extern const KernelTable kTable;
const KernelTable kTable = {
    kIsa,
#define BASCULE_KERNEL(name, Arguments) name,
#include "kernels/kernels.inc"
#undef BASCULE_KERNEL
};

}  // namespace bascule::BASCULE_ISA
