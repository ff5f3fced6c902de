// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/resize.h"
#include "kernels/table.h"

namespace bascule::test::test_isa {
namespace {

TEST(Isa, TheBestIsSupportedAndScalarOnlyWhereThereIsNoOther) {
  EXPECT_TRUE(isa_supported(best_isa()));
  for (const Isa isa : kAllIsas) {
    if (isa_supported(isa) && isa != Isa::kScalar) {
      EXPECT_NE(best_isa(), Isa::kScalar) << isa_name(isa);
    }
  }
}

// avx512_bf16 is avx512 with a kernel of its own for bf16 products; amx is the best set but for sums of tiles.
TEST(Isa, EachHasTheKernelsThatWereCompiledForIt) {
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    EXPECT_EQ(kernels_for(isa).isa, isa) << isa_name(isa);
    EXPECT_EQ(kernels_for(isa, Bf16Law::kTiles).gemm_tile_bf16, kernels_for(isa).gemm_tile_bf16_tiles);
    EXPECT_EQ(kernels_for(isa, Bf16Law::kTiles).gemm_tile, kernels_for(isa).gemm_tile);
    if (isa == Isa::kAmx) {
      EXPECT_EQ(kernels_for(isa).gemm_tile_bf16, kernels_for(best_isa()).gemm_tile_bf16);
      EXPECT_NE(kernels_for(isa).gemm_tile_bf16_tiles, kernels_for(best_isa()).gemm_tile_bf16_tiles);
      continue;
    }
    for (const Isa other : kAllIsas) {
      if (other == isa || other == Isa::kAmx || !isa_supported(other)) continue;
      const bool share =
          (isa == Isa::kAvx512 && other == Isa::kAvx512Bf16) || (isa == Isa::kAvx512Bf16 && other == Isa::kAvx512);
      SCOPED_TRACE(std::string(isa_name(isa)) + " and " + isa_name(other));
      EXPECT_NE(kernels_for(isa).gemm_tile_bf16, kernels_for(other).gemm_tile_bf16);
      EXPECT_EQ(kernels_for(isa).adamw == kernels_for(other).adamw, share);
      EXPECT_NE(resize_kernels_for(isa).blend_to_planes, resize_kernels_for(other).blend_to_planes);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_isa
