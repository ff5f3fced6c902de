// SPDX-License-Identifier: Apache-2.0
// The sums of Bf16Law::kTiles by multiply-adds, for products, convolutions and those of doubled pictures.
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_doubled.h"
#include "kernels/simd/multiply_tile.h"
#include "kernels/simd/multiply_windows.h"

namespace bascule::BASCULE_ISA {

void gemm_tile_bf16_tiles(const GemmTile& tile) {
  const SubnormalsAreZeros mode;
  multiply<TileSteps>(tile);
}
void pack_columns_bf16_tiles(const PackColumns& a) { pack_all_columns<TileSteps>(a); }

void convolution_bf16_tiles(const Convolution& a) {
  const SubnormalsAreZeros mode;
  convolve<TileSteps>(a);
}

void doubled_convolution_bf16_tiles(const DoubledConvolution& a) {
  const SubnormalsAreZeros mode;
  convolve_doubled<TileSteps>(a);
}

}  // namespace bascule::BASCULE_ISA
