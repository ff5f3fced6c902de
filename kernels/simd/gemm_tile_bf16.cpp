// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_tile.h"

namespace bascule::BASCULE_ISA {

void gemm_tile_bf16(const GemmTile& tile) {
  const SubnormalsAreZeros mode;
  multiply<Bf16Steps>(tile);
}

}  // namespace bascule::BASCULE_ISA
