// SPDX-License-Identifier: Apache-2.0
// The table of this ISA. Initialised by constants, so that nothing of an ISA library runs unless it is called.
#include "kernels/simd/kernels.h"

// The instruction set whose code this one shares where the bf16 instruction makes no difference. Others share none.
#ifndef BASCULE_SHARED_ISA
#define BASCULE_SHARED_ISA BASCULE_ISA
#endif

namespace bascule {
namespace BASCULE_SHARED_ISA {
#define BASCULE_KERNEL(name, Arguments) void name(const Arguments& a);
#include "kernels/kernels.inc"
#undef BASCULE_KERNEL
}  // namespace BASCULE_SHARED_ISA

namespace BASCULE_ISA {

namespace {

// One constant an instruction set, by its name: that of this unit is BASCULE_ISA.
namespace isa_called {
#define BASCULE_INSTRUCTION_SET(enumerator, name) [[maybe_unused]] constexpr Isa name = Isa::enumerator;
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
}  // namespace isa_called

}  // namespace

extern const KernelTable kTable;
const KernelTable kTable = {
    isa_called::BASCULE_ISA,
#define BASCULE_KERNEL(name, Arguments) BASCULE_SHARED_ISA::name,
#define BASCULE_BF16_KERNEL(name, Arguments) name,
#include "kernels/kernels.inc"
#undef BASCULE_KERNEL
};

}  // namespace BASCULE_ISA
}  // namespace bascule
