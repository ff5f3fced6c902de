// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/choose_isa.h"

#include <gtest/gtest.h>

#include <memory>

namespace bascule {
namespace {

TEST(ChooseProducts, ProductsAreCutForTheThreadsThatShareThem) {
  const GemmSpec spec{GemmKind::kForward, 4096, 768, 768, 768, 768, 768, true, true, false};
  for (const int threads : {1, 16}) {
    const auto products = make_products(Products::kOurs, GemmType::kBf16, kernels_for(Isa::kScalar), threads, nullptr);
    EXPECT_EQ(products->threads(), threads);
    EXPECT_GE(products->make(spec)->tasks(4096), threads);
  }
}

}  // namespace
}  // namespace bascule
