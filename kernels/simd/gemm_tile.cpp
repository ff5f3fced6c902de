// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {

void gemm_tile(const GemmTile& tile) { multiply<Float32Steps>(tile); }
void pack_columns(const PackColumns& a) { pack_all_columns<Float32Steps>(a); }

}  // namespace bascule::BASCULE_ISA
