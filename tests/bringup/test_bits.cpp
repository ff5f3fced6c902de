// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/bring_up.h"

#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/isa.h"

namespace bascule {
namespace {

constexpr std::size_t kMemory = std::size_t{8} << 20;

TEST(Bits, EveryCoreOnEveryInstructionSetComputesTheRecordedOnes) {
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    Workbench bench(isa, ".", kMemory);
    const BitsResult result = compare_bits(bench, 0.0);
    EXPECT_EQ(result.passes, 1);
    EXPECT_TRUE(result.wrong.empty()) << isa_name(isa);
    EXPECT_EQ(result.digest, kRecordedPassBits) << isa_name(isa);
    EXPECT_FALSE(result.none_as_recorded);
  }
}

// One bit of one number of one result of the last core.
struct Flip {
  int core;
  bool is_of(int at, const std::string& problem, const std::string& wanted) const {
    return at == core && problem.find(wanted) != std::string::npos;
  }
  static void flip(Span<float> result) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &result[result.size() / 2], sizeof bits);
    bits ^= 1u;
    std::memcpy(&result[result.size() / 2], &bits, sizeof bits);
  }
};

TEST(Bits, ACoreThatComputesOneBitWrongIsNamed) {
  Workbench bench(best_isa(), ".", kMemory);
  const Flip bad{bench.cores().back()};
  for (const char* problem : {"float32 product, forward", "bf16 product, weight gradient", "extract_patches"}) {
    const BitsResult result = compare_bits(bench, 0.0, [&](int core, const std::string& name, Span<float> numbers) {
      if (bad.is_of(core, name, problem)) Flip::flip(numbers);
    });
    ASSERT_EQ(result.wrong.size(), 1u) << problem;
    EXPECT_EQ(result.wrong[0].core, bad.core);
    EXPECT_EQ(result.wrong[0].problem.find(problem), 0u) << result.wrong[0].problem;
    EXPECT_EQ(result.wrong[0].passes, 1);
    EXPECT_EQ(result.none_as_recorded, bench.core_count() == 1);
  }
}

TEST(Bits, TheRecordedOnesAreRightHoweverManyCoresAgreeOnOthers) {
  Workbench bench(best_isa(), ".", kMemory);
  const int good = bench.cores().back();
  const BitsResult result = compare_bits(bench, 0.0, [&](int core, const std::string& name, Span<float> numbers) {
    if (core != good && name.find("adamw") == 0) Flip::flip(numbers);
  });
  EXPECT_EQ(result.digest, kRecordedPassBits);
  EXPECT_FALSE(result.none_as_recorded);
  EXPECT_EQ(static_cast<int>(result.wrong.size()), bench.core_count() - 1);
  for (const WrongCore& wrong : result.wrong) EXPECT_NE(wrong.core, good);
}

TEST(Bits, CoresThatAllComputeTheSameWrongBitsAreNoticed) {
  Workbench bench(best_isa(), ".", kMemory);
  const BitsResult result = compare_bits(bench, 0.0, [](int, const std::string& name, Span<float> numbers) {
    if (name.find("adamw") == 0) Flip::flip(numbers);
  });
  EXPECT_TRUE(result.none_as_recorded);
  EXPECT_TRUE(result.wrong.empty());
}

TEST(Bits, ALongComparisonGoesOnForItsTime) {
  Workbench bench(best_isa(), ".", kMemory);
  const int bad = bench.cores().back();
  int calls = 0;
  const BitsResult result = compare_bits(bench, 0.6, [&](int core, const std::string& name, Span<float> numbers) {
    if (core == bad && name == "float32 product, forward" && ++calls == 2) Flip::flip(numbers);  // rarely
  });
  EXPECT_GE(result.passes, 2);
  EXPECT_GE(result.seconds, 0.6);
  ASSERT_EQ(result.wrong.size(), 1u);
  EXPECT_EQ(result.wrong[0].passes, 1);
}

}  // namespace
}  // namespace bascule
