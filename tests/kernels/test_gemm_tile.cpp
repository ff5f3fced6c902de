// SPDX-License-Identifier: Apache-2.0
// The arithmetic of gemm_tile.h, to the bit: every instruction set against the plain loops of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <ostream>
#include <vector>

#include "kernels/reference/gemm_tile.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_gemm_tile {
namespace {

constexpr GemmKind kKinds[] = {GemmKind::kForward, GemmKind::kInputGradient, GemmKind::kWeightGradient};

struct Case {
  GemmKind kind;
  std::int64_t rows, cols, depth, slack;
  bool bias, accumulate;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  constexpr const char* kNames[] = {"forward", "input gradient", "weight gradient"};
  return out << kNames[static_cast<int>(c.kind)] << " " << c.rows << " x " << c.cols << " depth " << c.depth
             << " slack " << c.slack << (c.bias ? " bias" : "") << (c.accumulate ? " accumulate" : "");
}

std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// A NaN may have any payload.
bool same(std::uint16_t a, std::uint16_t b) { return a == b; }
bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

// Ends at an unreadable page, and so begins at a multiple of 64 bytes.
struct Scratch {
  GuardedBuffer<unsigned char> bytes = GuardedBuffer<unsigned char>(kGemmTileBf16ScratchBytes);
};

// Operands that end at an unreadable page; C with a mark between the rows.
template <typename A, typename B = A, typename C = float>
struct Operands {
  GemmTile tile;
  GuardedBuffer<A> a;
  GuardedBuffer<B> b;
  GuardedBuffer<C> c;
  GuardedBuffer<float> bias;

  template <typename Fill>
  Operands(const Case& test, const Fill& fill)
      : a(extent(test.kind == GemmKind::kWeightGradient ? test.depth : test.rows, a_columns(test), test.slack)),
        b(extent(test.kind == GemmKind::kForward ? test.cols : test.depth, b_columns(test), test.slack)),
        c(extent(test.rows, test.cols, test.slack)),
        bias(static_cast<std::size_t>(test.cols)) {
    for (A& x : a.span()) fill.operand(&x);
    for (B& x : b.span()) fill.operand(&x);
    for (C& x : c.span()) x = static_cast<C>(fill.sum());
    for (float& x : bias.span()) x = fill.sum();
    tile = {test.kind,
            c.data(),
            a.data(),
            b.data(),
            test.bias ? bias.data() : nullptr,
            a_columns(test) + test.slack,
            b_columns(test) + test.slack,
            test.cols + test.slack,
            test.rows,
            test.cols,
            test.depth,
            test.accumulate,
            nullptr};
  }

 private:
  static std::int64_t a_columns(const Case& test) {
    return test.kind == GemmKind::kWeightGradient ? test.rows : test.depth;
  }
  static std::int64_t b_columns(const Case& test) { return test.kind == GemmKind::kForward ? test.depth : test.cols; }
  static std::size_t extent(std::int64_t rows, std::int64_t columns, std::int64_t slack) {
    return static_cast<std::size_t>(rows == 0 ? 0 : (rows - 1) * (columns + slack) + columns);
  }
};

template <typename A, typename B = A, typename C = float, typename Fill>
void expect_same_bits(const Case& test, const Fill& fill, void (*reference)(const GemmTile&),
                      void (*KernelTable::*kernel)(const GemmTile&)) {
  Operands<A, B, C> o(test, fill);
  const std::vector<C> before(o.c.begin(), o.c.end());
  std::vector<C> truth = before;
  GemmTile tile = o.tile;
  tile.c = truth.data();
  reference(tile);
  const auto scratch = std::make_unique<Scratch>();
  for (const Isa isa : isas()) {
    std::copy(before.begin(), before.end(), o.c.begin());
    std::memset(scratch->bytes.data(), 0xff, scratch->bytes.size());  // NaN: what is not packed must not be used
    o.tile.scratch = scratch->bytes.data();
    (kernels_for(isa).*kernel)(o.tile);
    for (std::size_t i = 0; i < truth.size(); ++i)
      ASSERT_TRUE(same(o.c[i], truth[i]))
          << test << " " << isa_name(isa) << " element " << i << ": " << o.c[i] << " instead of " << truth[i];
  }
}

// A law of the sums of bf16: its definition and its kernel.
struct Law {
  void (*reference)(const GemmTile&);
  void (*KernelTable::*kernel)(const GemmTile&);
};
constexpr Law kLaws[] = {{reference::gemm_tile_bf16, &KernelTable::gemm_tile_bf16},
                         {reference::gemm_tile_bf16_tiles, &KernelTable::gemm_tile_bf16_tiles}};

struct PackedLaw {
  Law law;
  void (*KernelTable::*pack)(const PackColumns&);
  bool is_bf16;
  Bf16Law bf16_law;
};
constexpr PackedLaw kPackedFloat32 = {
    {reference::gemm_tile, &KernelTable::gemm_tile}, &KernelTable::pack_columns, false, Bf16Law::kPairs};
constexpr PackedLaw kPackedBf16[] = {{kLaws[0], &KernelTable::pack_columns_bf16, true, Bf16Law::kPairs},
                                     {kLaws[1], &KernelTable::pack_columns_bf16_tiles, true, Bf16Law::kTiles}};

struct Normal {
  Seeded& random;
  void operand(float* x) const { *x = sum(); }
  void operand(std::uint16_t* x) const { *x = static_cast<std::uint16_t>(bits_of(sum()) >> 16); }
  float sum() const { return static_cast<float>(random.normal()); }
};
// Every pattern of bits is as likely: subnormals, infinities and NaN among them; or numbers whose products lie about
// the smallest normal one.
struct AnyBf16 {
  Seeded& random;
  bool tiny;
  void operand(std::uint16_t* x) const {
    const std::uint64_t bits = random.bits();
    const std::uint64_t exponent = 61 + (bits >> 32) % 5;  // products from 2^-132 to 2^-122
    *x = static_cast<std::uint16_t>(tiny ? (bits & 0x807f) | exponent << 7 : bits);
  }
  float sum() const { return tiny ? static_cast<float>(random.uniform(-2.0, 2.0)) * 0x1p-126f : 1.0f; }
};

Case random_case(Seeded& random, GemmKind kind) {
  // Around the edges of blocks, chunks and pairs.
  constexpr std::int64_t kDepths[] = {1, 2, 3, 7, 16, 17, 64, 255, 256, 257, 511, 512, 513, 600, 1025};
  Case test{kind,
            random.integer(1, 45),
            random.integer(1, 100),
            kDepths[random.integer(0, 14)],
            random.chance(0.5) ? 0 : random.integer(1, 19),
            false,
            false};
  if (random.chance(0.1)) test.cols = kGemmTileCols - random.integer(0, 33);
  test.accumulate = random.chance(0.4);
  test.bias = !test.accumulate && kind == GemmKind::kForward && random.chance(0.5);
  return test;
}

TEST(GemmTile, EveryInstructionSetGivesTheBitsOfTheReference) {
  Seeded random;
  for (int i = 0; i < 60; ++i) {
    for (const GemmKind kind : kKinds)
      expect_same_bits<float>(random_case(random, kind), Normal{random}, reference::gemm_tile, &KernelTable::gemm_tile);
  }
}

TEST(GemmTile, Bf16GivesTheBitsOfTheReference) {
  Seeded random;
  for (int i = 0; i < 60; ++i) {
    const auto& [reference, kernel] = kLaws[i % 2];
    for (const GemmKind kind : kKinds)
      expect_same_bits<std::uint16_t>(random_case(random, kind), Normal{random}, reference, kernel);
  }
}

// Operands in float32 are rounded as they are packed, and a result in bf16 is rounded after its last chunk.
TEST(GemmTile, Bf16OfFloat32OperandsOrIntoBf16GivesTheBitsOfTheReference) {
  Seeded random;
  for (int i = 0; i < 30; ++i) {
    const auto& [reference, kernel] = kLaws[i % 2];
    for (const GemmKind kind : kKinds) {
      const Case sum = random_case(random, kind);
      Case whole = sum;
      whole.accumulate = false;
      const Normal fill{random};
      expect_same_bits<float>(sum, fill, reference, kernel);
      expect_same_bits<std::uint16_t, float>(sum, fill, reference, kernel);
      expect_same_bits<float, std::uint16_t>(sum, fill, reference, kernel);
      expect_same_bits<std::uint16_t, float, std::uint16_t>(whole, fill, reference, kernel);
    }
  }
}

// B packed, with nothing readable behind it, and the tile that begins a step further on.
template <typename Number, typename C = float>
void expect_same_bits_packed(const Case& test, const Normal& fill, const PackedLaw& packed_law) {
  const Law& law = packed_law.law;
  Operands<Number, Number, C> o(test, fill);
  std::vector<C> truth(o.c.begin(), o.c.end());
  GemmTile tile = o.tile;
  tile.c = truth.data();
  law.reference(tile);
  const std::vector<C> before(o.c.begin(), o.c.end());
  const auto scratch = std::make_unique<Scratch>();
  for (const Isa isa : isas()) {
    if (!packs_columns(kernels_for(isa, packed_law.bf16_law), packed_law.is_bf16, test.depth)) continue;
    GuardedBuffer<Number> packed(o.b.size());
    for (std::int64_t at = 0; at < test.cols * test.depth; at += kPackedCols * test.depth)
      (kernels_for(isa).*packed_law.pack)({packed.data() + at, o.b.data() + at, test.depth});
    for (const std::int64_t col : {std::int64_t{0}, kPackedCols}) {
      if (col >= test.cols) continue;
      std::copy(before.begin(), before.end(), o.c.begin());
      std::memset(scratch->bytes.data(), 0xff, scratch->bytes.size());
      tile = o.tile;
      tile.b = packed.data() + col * test.depth;
      tile.c = o.c.data() + col;
      tile.cols = test.cols - col;
      if (tile.bias != nullptr) tile.bias += col;
      tile.scratch = scratch->bytes.data();
      tile.b_is_packed = true;
      (kernels_for(isa).*law.kernel)(tile);
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(truth.size()); ++i) {
        const std::int64_t in_row = i % tile.ldc;
        const std::size_t element = static_cast<std::size_t>(i);
        ASSERT_TRUE(same(o.c[element], in_row < col ? before[element] : truth[element]))
            << test << " " << isa_name(isa) << " from column " << col << " element " << i;
      }
    }
  }
}

TEST(GemmTile, PackedBGivesTheBitsOfTheReference) {
  constexpr std::int64_t kDepths[] = {1, 2, 7, 32, 96, 255, 256, 257, 512, 600, 1025, 1184};
  Seeded random;
  const Normal fill{random};
  for (const std::int64_t depth : kDepths) {
    for (const std::int64_t rows : {random.integer(1, 16), random.integer(17, 64), random.integer(65, 80)}) {
      Case test{GemmKind::kForward, rows, kPackedCols * random.integer(1, 4), depth, 0, random.chance(0.5), false};
      expect_same_bits_packed<float>(test, fill, kPackedFloat32);
      for (const PackedLaw& law : kPackedBf16) {
        expect_same_bits_packed<std::uint16_t>(test, fill, law);
        expect_same_bits_packed<std::uint16_t, std::uint16_t>(test, fill, law);
      }
      test.bias = false;
      test.accumulate = true;
      expect_same_bits_packed<float>(test, fill, kPackedFloat32);
      for (const PackedLaw& law : kPackedBf16) expect_same_bits_packed<std::uint16_t>(test, fill, law);
    }
  }
}

// Tiles have no room for a C of bf16 of more depths; elsewhere steps of bf16 are widened.
TEST(GemmTile, APackedBTakesNoMoreBytesThanB) {
  for (const Isa isa : isas()) {
    EXPECT_TRUE(packs_columns(kernels_for(isa), false, 3)) << isa_name(isa);
    EXPECT_EQ(packs_columns(kernels_for(isa), true, 14624), isa == Isa::kAvx512Bf16) << isa_name(isa);
    EXPECT_FALSE(packs_columns(kernels_for(isa), true, 33)) << isa_name(isa);
    for (const std::int64_t depth : {14560, 14592, 14624, 48})
      EXPECT_EQ(packs_columns(kernels_for(isa, Bf16Law::kTiles), true, depth),
                isa == Isa::kAmx && depth != 48 && depth < 14600)
          << isa_name(isa);
  }
}

// Each number of rows has a block of its own, and its own way over the pieces of a depth.
TEST(GemmTile, EveryNumberOfFewRowsGivesTheBitsOfTheReference) {
  Seeded random;
  const Normal fill{random};
  for (std::int64_t rows = 1; rows <= 17; ++rows) {
    for (const std::int64_t depth : {4, 12, 20, 23, 276, 532, 533}) {
      const std::int64_t cols = depth % 2 == 0 ? 33 : 24;
      const Case whole{GemmKind::kForward, rows, cols, depth, 0, rows % 2 == 0, false};
      const Case sum{GemmKind::kForward, rows, cols, depth, 5, false, true};
      for (const Case& test : {whole, sum}) {
        expect_same_bits<float>(test, fill, reference::gemm_tile, &KernelTable::gemm_tile);
        const auto& [reference, kernel] = kLaws[(rows + depth / 4) % 2];
        expect_same_bits<std::uint16_t>(test, fill, reference, kernel);
        expect_same_bits<std::uint16_t, float>(test, fill, reference, kernel);
      }
      const auto& [reference, kernel] = kLaws[(rows + depth / 4) % 2];
      expect_same_bits<std::uint16_t, std::uint16_t, std::uint16_t>(whole, fill, reference, kernel);
      expect_same_bits<std::uint16_t, float, std::uint16_t>(whole, fill, reference, kernel);
    }
  }
}

// More sums than the scratch holds: the tile is computed in parts.
TEST(GemmTile, ATileOfManyRowsIntoBf16GivesTheBitsOfTheReference) {
  Seeded random;
  const Case test{GemmKind::kForward, kGemmTileSums / kGemmTileCols + 15, kGemmTileCols - 1, 259, 3, true, false};
  for (const auto& [reference, kernel] : kLaws)
    expect_same_bits<std::uint16_t, float, std::uint16_t>(test, Normal{random}, reference, kernel);
}

TEST(GemmTile, Bf16OfAnyPatternOfBitsGivesTheBitsOfTheReference) {
  Seeded random;
  for (int i = 0; i < 60; ++i) {
    for (const GemmKind kind : kKinds) {
      Case test = random_case(random, kind);
      if (i % 2 == 0) test.depth = random.integer(1, 5);  // a NaN or an infinity does not hide the rest
      const auto& [reference, kernel] = kLaws[i / 4 % 2];
      expect_same_bits<std::uint16_t>(test, AnyBf16{random, i % 4 >= 2}, reference, kernel);
    }
  }
}

TEST(GemmTile, ASumOfNothingIsZeroTheBiasOrWhatIsThere) {
  Seeded random;
  for (const GemmKind kind : kKinds) {
    for (const bool accumulate : {false, true}) {
      const Case test{kind, 5, 20, 0, 3, kind == GemmKind::kForward && !accumulate, accumulate};
      expect_same_bits<float>(test, Normal{random}, reference::gemm_tile, &KernelTable::gemm_tile);
    }
  }
}

// 2^-63 2^-63 is the smallest normal number, and the next product takes so little from it that the sum rounds up to it,
// or a little more, so that with an unbounded exponent it would round to the number of 24 bits below: that is zero.
TEST(GemmTile, Bf16TakesASumAsZeroThatIsSubnormalBeforeItRoundsUp) {
  const auto scratch = std::make_unique<Scratch>();
  const std::uint16_t two_to_63 = 0x2000, two_to_76 = 0x1980, minus_two_to_76 = 0x9980, half_more = 0x19c0,
                      two_to_75 = 0x1a00;
  const std::uint16_t a[2] = {minus_two_to_76, two_to_63};
  for (const Isa isa : isas()) {
    for (const bool tiny : {false, true}) {
      const std::uint16_t even = tiny ? half_more : two_to_76;
      const std::uint16_t first[2] = {static_cast<std::uint16_t>(tiny ? 0x8000 | two_to_75 : a[0]), a[1]};
      const std::uint16_t second[2] = {even, two_to_63};
      float c = 7.0f, truth = 7.0f;
      GemmTile tile{GemmKind::kForward, &truth, first, second, nullptr, 2, 2, 1, 1, 1, 2, false, scratch->bytes.data()};
      reference::gemm_tile_bf16(tile);
      EXPECT_EQ(truth, tiny ? 0.0f : 0x1p-126f);
      tile.c = &c;
      kernels_for(isa).gemm_tile_bf16(tile);
      EXPECT_EQ(c, truth) << isa_name(isa);
    }
  }
}

// Subnormal operands and results are zeros in bf16, and stay what they are in float32.
TEST(GemmTile, OnlyBf16TakesSubnormalNumbersAsZeros) {
  const float one = 1.0f, smallest = 0x1p-149f;
  volatile float factor = 1.0f;  // multiplied by the thread, not by the compiler
  const std::uint16_t one_bf16 = 0x3f80, subnormal_bf16 = 0x0001;
  const auto scratch = std::make_unique<Scratch>();
  for (const Isa isa : isas()) {
    float c = 7.0f;
    kernels_for(isa).gemm_tile(
        {GemmKind::kForward, &c, &one, &smallest, nullptr, 1, 1, 1, 1, 1, 1, false, scratch->bytes.data()});
    EXPECT_EQ(bits_of(c), 1u) << isa_name(isa);
    kernels_for(isa).gemm_tile_bf16(
        {GemmKind::kForward, &c, &one_bf16, &subnormal_bf16, nullptr, 1, 1, 1, 1, 1, 1, false, scratch->bytes.data()});
    EXPECT_EQ(c, 0.0f) << isa_name(isa);
    EXPECT_EQ(bits_of(smallest * factor), 1u) << "the mode of the thread is as it was";
  }
}

}  // namespace
}  // namespace bascule::test::test_gemm_tile
