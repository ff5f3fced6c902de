// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa.h"

#include <gtest/gtest.h>

#include "kernels/resize.h"
#include "kernels/table.h"

namespace bascule::test {
namespace {

TEST(Isa, TheBestIsSupportedAndScalarOnlyWhereThereIsNoOther) {
  EXPECT_TRUE(isa_supported(best_isa()));
  for (const Isa isa : kAllIsas) {
    if (isa_supported(isa) && isa != Isa::kScalar) {
      EXPECT_NE(best_isa(), Isa::kScalar) << isa_name(isa);
    }
  }
}

TEST(Isa, EachHasTheKernelsThatWereCompiledForIt) {
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    EXPECT_EQ(kernels_for(isa).isa, isa) << isa_name(isa);
    for (const Isa other : kAllIsas) {
      if (other == isa || !isa_supported(other)) continue;
      EXPECT_NE(kernels_for(isa).adamw, kernels_for(other).adamw);
      EXPECT_NE(resize_kernels_for(isa).blend_to_planes, resize_kernels_for(other).blend_to_planes);
    }
  }
}

}  // namespace
}  // namespace bascule::test
