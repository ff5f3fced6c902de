// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_tile.h"
#include "kernels/simd/streamed_bf16.h"

namespace bascule::BASCULE_ISA {

void gemm_tile_bf16(const GemmTile& tile) {
  const SubnormalsAreZeros mode;
  GemmTile left = tile;
  if (const std::int64_t cols = multiply_streamed_bf16(tile)) {
    left.c += cols;
    left.b += cols * tile.ldb;
    if (tile.bias != nullptr) left.bias += cols;
    left.cols -= cols;
  }
  if (left.cols > 0) multiply<Bf16Steps>(left);
}
void pack_columns_bf16(const PackColumns& a) { pack_all_columns<Bf16Steps>(a); }

}  // namespace bascule::BASCULE_ISA
