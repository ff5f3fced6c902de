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

TEST(ChooseIsa, SumsOfTilesHaveKernelsOfTheirOwnAndTilesWhereTheyAreGranted) {
  Settings settings;
  settings.model.precision = Precision::kBf16;
  EXPECT_EQ(choose_isa(settings.machine, settings.model.precision), best_isa());
  EXPECT_EQ(&kernels_for(best_isa(), settings.machine), &kernels_for(best_isa()));
  EXPECT_EQ(isa_text(Isa::kAvx2, settings.machine, settings.model.precision), "avx2");
  settings.machine.bf16_sums = Bf16Sums::kTiles;
  EXPECT_EQ(choose_isa(settings.machine, settings.model.precision), isa_supported(Isa::kAmx) ? Isa::kAmx : best_isa());
  EXPECT_EQ(&kernels_for(best_isa(), settings.machine), &kernels_for(best_isa(), Bf16Law::kTiles));
  EXPECT_EQ(isa_text(Isa::kAvx2, settings.machine, settings.model.precision), "avx2, bf16 sums of tiles");
  EXPECT_EQ(note_on_bf16(settings.machine, settings.model.precision).empty(), isa_supported(Isa::kAmx));
  settings.model.precision = Precision::kFloat32;
  EXPECT_EQ(choose_isa(settings.machine, settings.model.precision), best_isa()) << "nothing is bf16";
  EXPECT_EQ(note_on_bf16(settings.machine, settings.model.precision), "");
}

}  // namespace
}  // namespace bascule
