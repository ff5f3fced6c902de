// SPDX-License-Identifier: Apache-2.0
#include "kernels/table.h"

namespace bascule {

// Each is defined by simd/table.cpp, compiled for its ISA.
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}

const KernelTable& kernels_for(Isa isa) { return isa == Isa::kAvx512 ? avx512::kTable : avx2::kTable; }

}  // namespace bascule
