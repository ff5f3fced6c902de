// SPDX-License-Identifier: Apache-2.0
// Our own products; BASCULE_TEST_ONEDNN=avx2 or avx512: oneDNN's, capped to it. meson runs this executable once each
// way.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/onednn_tiles.h"
#include "kernels/gemm/own_tiles.h"
#include "tests/kernels/gemm_eigen.h"
#include "tests/support/error_bound.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/own_products.h"
#include "tests/support/seeded.h"

namespace bascule::test::test_gemm {
namespace {

// The instruction set that oneDNN is capped to; null: our own products.
const char* onednn_isa() { return std::getenv("BASCULE_TEST_ONEDNN"); }

std::unique_ptr<GemmLibrary> make_library(int threads) {
  if (onednn_isa() == nullptr) return std::make_unique<OwnProducts>(threads);
  return onednn_products(std::string(onednn_isa()) == "avx512" ? Isa::kAvx512 : Isa::kAvx2, threads);
}

constexpr GemmKind kKinds[] = {GemmKind::kForward, GemmKind::kInputGradient, GemmKind::kWeightGradient};

struct Case {
  GemmKind kind;
  std::int64_t rows, n, k;
  std::int64_t slack = 0;  // stride minus columns, of all three matrices
  bool bias = false;
  bool accumulate = false;
  GemmType type = GemmType::kFloat32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  constexpr const char* kNames[] = {"forward", "input gradient", "weight gradient"};
  return out << kNames[static_cast<int>(c.kind)] << " R=" << c.rows << " n=" << c.n << " k=" << c.k
             << " slack=" << c.slack << (c.bias ? " bias" : "") << (c.accumulate ? " accumulate" : "");
}

// The matrices of a case, each ending at an unreadable page. Rows past R hold what the contract allows.
struct Operands {
  std::int64_t padded, a_columns, b_rows, b_columns, c_rows, c_columns;
  GemmSpec spec;
  GuardedBuffer<float> a, b, c, bias;

  Operands(const Case& test, Seeded& random)
      : padded(gemm_units(test.rows) * kGemmUnit),
        a_columns(test.kind == GemmKind::kWeightGradient ? test.n : test.k),
        b_rows(test.kind == GemmKind::kWeightGradient ? padded
               : test.kind == GemmKind::kForward      ? test.n
                                                      : test.k),
        b_columns(test.kind == GemmKind::kInputGradient ? test.n : test.k),
        c_rows(test.kind == GemmKind::kWeightGradient ? test.n : padded),
        c_columns(test.kind == GemmKind::kWeightGradient ? test.k : test.n),
        spec{test.kind,
             test.rows,
             test.n,
             test.k,
             a_columns + test.slack,
             b_columns + test.slack,
             c_columns + test.slack,
             test.bias,
             !test.accumulate,
             test.accumulate,
             test.type},
        a(extent(padded, spec.lda, a_columns)),
        b(extent(b_rows, spec.ldb, b_columns)),
        c(extent(c_rows, spec.ldc, c_columns)),
        bias(static_cast<std::size_t>(test.n)) {
    for (GuardedBuffer<float>* matrix : {&a, &b, &c, &bias}) random.fill_normal(matrix->data(), matrix->size());
    const bool is_weight_gradient = test.kind == GemmKind::kWeightGradient;
    fill_rows_from(a, test.rows, spec.lda, is_weight_gradient ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    if (is_weight_gradient) fill_rows_from(b, test.rows, spec.ldb, 0.0f);
  }

  GemmRun run(const Case& test) {
    return {c.data(), a.data(), b.data(), test.bias ? bias.data() : nullptr, test.rows, test.accumulate};
  }

 private:
  static std::size_t extent(std::int64_t rows, std::int64_t stride, std::int64_t columns) {
    return static_cast<std::size_t>((rows - 1) * stride + columns);
  }
  static void fill_rows_from(GuardedBuffer<float>& matrix, std::int64_t row, std::int64_t stride, float value) {
    for (auto i = static_cast<std::size_t>(row * stride); i < matrix.size(); ++i) matrix[i] = value;
  }
};

void run_all(const Gemm& gemm, const GemmRun& run) {
  for (std::int64_t task = 0; task < gemm.tasks(run.rows); ++task) gemm.run(task, 0, run);
}

// Result within the bound, columns between the matrix and its stride untouched.
void expect_right(const Case& test, GemmLibrary& library, Seeded& random) {
  SCOPED_TRACE(::testing::Message() << test);
  Operands o(test, random);
  const std::vector<float> before(o.c.begin(), o.c.end());
  const std::int64_t valid = test.kind == GemmKind::kWeightGradient ? test.n : test.rows;
  const MatrixF64 held = rows_of(before.data(), valid, o.c_columns, o.spec.ldc);
  const GemmRun run = o.run(test);
  run_all(*library.make(o.spec), run);

  const GemmTruth truth = eigen_gemm(o.spec, run, held);
  const MatrixF64 error = (rows_of(o.c.data(), valid, o.c_columns, o.spec.ldc) - truth.value).cwiseAbs();
  EXPECT_TRUE((error.array() <= truth.bound.array()).all()) << "worst " << error.maxCoeff();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool in_matrix = static_cast<std::int64_t>(i) % o.spec.ldc < o.c_columns;
    if (!in_matrix && o.c[i] != before[i]) FAIL() << "wrote between the rows, element " << i;
  }
}

// Random terms of either sign: after j of them a sum is about sqrt(j) large, and rounding it once errs by epsilon /
// sqrt(3) of that. One chain of k additions so has a relative error of epsilon sqrt(k / 6): no product may be worse
// than that by more than a quarter, whatever its length. (Bounds by magnitude, as above, allow k epsilon.)
TEST(Gemm, LongSumsAreNoWorseThanOneChainOfAdditions) {
  Seeded random;
  const auto library = make_library(1);
  for (const std::int64_t length : {768, 1024, 2048, 3072, 4096}) {
    for (const GemmKind kind : kKinds) {
      const bool weight = kind == GemmKind::kWeightGradient;
      const Case test{kind, weight ? length : 48, 64, weight ? 64 : length};
      SCOPED_TRACE(::testing::Message() << test);
      Operands o(test, random);
      const GemmRun run = o.run(test);
      run_all(*library->make(o.spec), run);
      const std::int64_t rows = weight ? test.n : test.rows;
      const MatrixF64 held = MatrixF64::Zero(rows, o.c_columns);
      const MatrixF64 truth = eigen_gemm(o.spec, run, held).value;
      const MatrixF64 error = rows_of(o.c.data(), rows, o.c_columns, o.spec.ldc) - truth;
      EXPECT_LE(error.norm() / truth.norm(), 1.25 * kFloatEpsilon * std::sqrt(static_cast<double>(length) / 6.0));
    }
  }
}

constexpr int kThreadCounts[] = {1, 2, 3, 4, 8, 16, 32, 64};

TEST(OwnTiles, CoverTheMatrixWithoutEmptyTilesForEveryRowCountUpToTheBound) {
  for (const GemmKind kind : kKinds) {
    for (std::int64_t bound = 1; bound <= 7000; bound += bound < 40 ? 1 : 663) {
      for (std::int64_t cols = 1; cols <= 60000; cols = cols < 40 ? cols + 1 : cols * 3 / 2) {
        for (const int threads : {1, 2, 3, 64}) {
          const OwnTiling tiling = own_tiling(kind, bound, cols, threads);
          ASSERT_TRUE(tiling.width >= 1 && tiling.width <= kGemmTileCols) << bound << " " << cols;
          for (const std::int64_t rows : {std::int64_t{1}, bound / 3 + 1, bound}) {
            const OwnGrid grid = own_grid(tiling, rows, cols);
            ASSERT_TRUE((grid.rows - 1) * grid.height < rows && grid.rows * grid.height >= rows)
                << bound << " " << cols;
            ASSERT_TRUE((grid.columns - 1) * grid.width < cols && grid.columns * grid.width >= cols)
                << bound << " " << cols;
          }
        }
      }
    }
  }
}

// The share of all threads' time that is multiply-adds of the product, by the figures of own_tiles.h.
double useful_share(GemmKind kind, std::int64_t rows, std::int64_t cols, int threads) {
  const OwnGrid grid = own_grid(own_tiling(kind, rows, cols, threads), rows, cols);
  return static_cast<double>(rows * cols) / static_cast<double>(threads * own_time(kind, grid, threads, kCosts));
}

TEST(OwnTiles, EveryThreadWorksOnALargeProduct) {
  for (const int threads : kThreadCounts) {
    for (const std::int64_t width : {768, 1024, 3072, 4096}) {
      for (const GemmKind kind : kKinds) {
        const std::int64_t rows = kind == GemmKind::kWeightGradient ? width : 2600;
        EXPECT_GE(useful_share(kind, rows, width, threads), threads <= 16 ? 0.88 : 0.8) << width << " " << threads;
      }
    }
  }
}

// A product of few rows is cut across the weights' rows alone, and still has a task for each of 16 threads.
TEST(OwnTiles, EveryThreadReadsWeightsOfAProductOfOneRow) {
  for (const int threads : {1, 2, 4, 8, 16})
    EXPECT_GE(own_grid(own_tiling(GemmKind::kForward, 1, 512, threads), 1, 512).tasks(), threads);
}

TEST(OwnTiles, FewerRowsThanTheBoundLeaveATaskForEachThread) {
  for (const int threads : {1, 2, 4, 8, 16}) {
    const OwnTiling tiling = own_tiling(GemmKind::kForward, 4096, 768, threads);
    for (const std::int64_t rows : {4096, 2000, 1000, 500}) {
      const OwnGrid grid = own_grid(tiling, rows, 768);
      EXPECT_GE(grid.tasks(), threads) << rows;
      EXPECT_TRUE(grid.height >= 84 || grid.tasks() < 2 * threads) << rows << ": low tiles, " << threads;
    }
  }
}

TEST(GemmTiles, RowTilesCoverEveryRowOnceInOrder) {
  for (const GemmTiling& tiling : {kTilingAvx2, kTilingAvx512}) {
    for (std::int64_t units = 1; units <= 2000; ++units) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < row_tile_count(units, tiling); ++i) {
        const RowTile tile = row_tile(units, i, tiling);
        ASSERT_EQ(tile.first, next);
        ASSERT_TRUE(tile.units >= 1 && tile.units <= tiling.row_units);
        next += tile.units;
      }
      ASSERT_EQ(next, units);
    }
  }
}

TEST(GemmTiles, ChunksCoverEveryRowOnce) {
  for (std::int64_t units = 1; units <= 600; ++units) {
    std::int64_t left = units;
    while (left > 0) {
      ASSERT_TRUE(chunk_units(left) >= 1 && chunk_units(left) <= left);
      left -= chunk_units(left);
    }
    ASSERT_EQ(left, 0);
  }
}

TEST(GemmTiles, WeightGridCoversTheMatrixWithoutEmptyTiles) {
  for (const GemmTiling& tiling : {kTilingAvx2, kTilingAvx512}) {
    for (std::int64_t n = 1; n <= 3100; n += n < 40 ? 1 : 37) {
      for (std::int64_t k = 1; k <= 4100; k += k < 40 ? 1 : 41) {
        const WeightGrid grid = weight_grid(n, k, tiling);
        ASSERT_TRUE((grid.rows - 1) * grid.height < n && grid.rows * grid.height >= n) << n << " " << k;
        ASSERT_TRUE((grid.columns - 1) * grid.width < k && grid.columns * grid.width >= k) << n << " " << k;
      }
    }
  }
}

// The library frees what a run allocates; code that it generates at a first run would stay. (Freed blocks that malloc
// keeps for the thread count as in use: some KB.)
TEST(Gemm, ARunLeavesNothingAllocated) {
  Seeded random;
  const auto library = make_library(1);
  for (const GemmKind kind : kKinds) {
    for (const auto& [n, k] : {std::array<std::int64_t, 2>{1, 1}, {1, 6}, {6, 1}, {6, 2}, {130, 72}, {256, 770}}) {
      for (const std::int64_t slack : {0, 16}) {
        const Case test{kind, 70, n, k, slack, kind == GemmKind::kForward};
        Operands o(test, random);
        const auto gemm = library->make(o.spec);
        const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        run_all(*gemm, o.run(test));
        EXPECT_LT(mallinfo2().uordblks + mallinfo2().hblkhd, before + 16384) << test;
      }
    }
  }
}

TEST(Gemm, EveryKindIsWithinTheBoundForAllOddExtents) {
  Seeded random;
  const auto library = make_library(1);
  for (const GemmKind kind : kKinds) {
    for (const std::int64_t n : {1, 2, 6, 20, 24, 72, 130}) {
      for (const std::int64_t k : {1, 6, 17, 20, 72, 130}) {
        const std::int64_t rows = random.integer(1, 70);
        expect_right({kind, rows, n, k, 0, kind == GemmKind::kForward, false}, *library, random);
        expect_right({kind, rows, n, k, random.integer(1, 19), false, kind != GemmKind::kForward}, *library, random);
      }
    }
  }
}

TEST(Gemm, ModelSizedExtentsAreWithinTheBound) {
  Seeded random;
  const auto library = make_library(1);
  for (const GemmKind kind : kKinds) {
    expect_right({kind, 325, 768, 770, 0, kind == GemmKind::kForward, false}, *library, random);
    expect_right({kind, 300, 770, 768, 0, false, true}, *library, random);
    expect_right({kind, 130, 1540, 128, 0, false, false}, *library, random);
    expect_right({kind, 40, 130, 1540, 0, kind == GemmKind::kForward, false}, *library, random);
    expect_right({kind, 600, 192, 256, 64, kind == GemmKind::kForward, false}, *library, random);
  }
}

// One Gemm for all row counts up to its bound, as a tape uses it.
TEST(Gemm, EveryRowCountUpToTheBoundRunsOnTheSameGemm) {
  Seeded random;
  const auto library = make_library(1);
  for (const GemmKind kind : kKinds) {
    const Case largest{kind, 600, 20, 24};
    Operands o(largest, random);
    const auto gemm = library->make(o.spec);
    for (std::int64_t rows = 600; rows >= 1; rows -= rows > 40 ? 7 : 1) {
      const Case test{kind, rows, 20, 24};
      Operands p(test, random);
      const GemmRun run = p.run(test);
      run_all(*gemm, run);
      const std::int64_t valid = kind == GemmKind::kWeightGradient ? test.n : rows;
      const GemmTruth truth = eigen_gemm(o.spec, run, MatrixF64());
      const MatrixF64 error = (rows_of(p.c.data(), valid, p.c_columns, p.spec.ldc) - truth.value).cwiseAbs();
      ASSERT_TRUE((error.array() <= truth.bound.array()).all()) << test;
    }
  }
}

TEST(Gemm, AWeightGradientOfNoRowsIsZeroOrWhatWasThere) {
  const auto library = make_library(1);
  const auto gemm = library->make({GemmKind::kWeightGradient, 16, 20, 24, 20, 24, 26, false, true, true});
  const std::vector<float> nothing(16 * 24, 0.0f);
  for (const bool accumulate : {true, false}) {
    std::vector<float> c(20 * 26, 3.0f);
    run_all(*gemm, {c.data(), nothing.data(), nothing.data(), nullptr, 0, accumulate});
    for (std::size_t i = 0; i < c.size(); ++i) ASSERT_EQ(c[i], accumulate || i % 26 >= 24 ? 3.0f : 0.0f) << i;
  }
}

std::vector<float> run_on_threads(const Case& test, int threads) {
  Seeded random(7);
  const auto library = make_library(threads);
  Operands o(test, random);
  const auto gemm = library->make(o.spec);
  const GemmRun run = o.run(test);
  std::atomic<std::int64_t> next{0};
  const auto work = [&](int thread) {
    for (std::int64_t task = next++; task < gemm->tasks(run.rows); task = next++) gemm->run(task, thread, run);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();
  return std::vector<float>(o.c.begin(), o.c.end());
}

TEST(Gemm, ThreadCountDoesNotChangeABit) {
  for (const GemmKind kind : kKinds) {
    for (const auto& [rows, n, k] : {std::array<std::int64_t, 3>{1088, 128, 128}, {2608, 64, 64}, {77, 768, 770}}) {
      const Case test{kind, rows, n, k, 0, kind == GemmKind::kForward, kind == GemmKind::kWeightGradient};
      const std::vector<float> alone = run_on_threads(test, 1);
      for (const int threads : {2, 3, 4, 16}) {
        EXPECT_EQ(first_different_bit(alone, run_on_threads(test, threads)), -1) << test << " threads=" << threads;
      }
    }
  }
}

TEST(Gemm, ProductsAreCutForTheThreadsOfTheLibrary) {
  if (onednn_isa() != nullptr) GTEST_SKIP() << "only of our own";
  const GemmSpec spec{GemmKind::kWeightGradient, 64, 768, 768, 768, 768, 768, false, true, false};
  EXPECT_LT(make_library(1)->make(spec)->tasks(64), 16);
  EXPECT_GE(make_library(16)->make(spec)->tasks(64), 16);
}

// bf16 operands: the bits of the float matrices stand for pairs of them.
TEST(Gemm, ThreadCountDoesNotChangeABitOfBf16) {
  if (onednn_isa() != nullptr) GTEST_SKIP() << "only of our own";
  for (const GemmKind kind : kKinds) {
    for (const auto& [rows, n, k] : {std::array<std::int64_t, 3>{1088, 128, 128}, {77, 769, 771}}) {
      const Case test{kind,           rows, n, k, 1, kind == GemmKind::kForward, kind == GemmKind::kWeightGradient,
                      GemmType::kBf16};
      const std::vector<float> alone = run_on_threads(test, 1);
      for (const int threads : {2, 3, 4, 16})
        EXPECT_EQ(first_different_bit(alone, run_on_threads(test, threads)), -1) << test << " threads=" << threads;
    }
  }
}

TEST(Gemm, RowsPastTheLastDoNotReachTheValidOnes) {
  for (const GemmKind kind : {GemmKind::kForward, GemmKind::kInputGradient}) {
    const Case test{kind, 37, 24, 72};
    const auto library = make_library(1);
    Seeded first(3);
    Seeded second(3);
    Operands o(test, first);
    Operands p(test, second);
    for (auto i = static_cast<std::size_t>(37 * p.spec.lda); i < p.a.size(); ++i) p.a[i] = 1e30f;
    run_all(*library->make(o.spec), o.run(test));
    run_all(*library->make(p.spec), p.run(test));
    const auto valid = static_cast<std::size_t>(37 * o.spec.ldc);
    EXPECT_EQ(first_different_bit(o.c.span().first(valid), p.c.span().first(valid)), -1) << test;
  }
}

TEST(Gemm, SpecsThatContradictThemselvesAreRefused) {
  const auto library = make_library(1);
  const GemmSpec good{GemmKind::kForward, 16, 8, 8, 8, 8, 8, true, true, false};
  EXPECT_NO_THROW(library->make(good));
  GemmSpec narrow = good;
  narrow.lda = 7;
  EXPECT_THROW(library->make(narrow), std::runtime_error);
  GemmSpec bias = good;
  bias.kind = GemmKind::kInputGradient;
  EXPECT_THROW(library->make(bias), std::runtime_error);
  GemmSpec unused = good;
  unused.may_overwrite = false;
  EXPECT_THROW(library->make(unused), std::runtime_error);
}

TEST(Gemm, OnednnIsCappedOnceAProcessAndHasNoBf16) {
  if (onednn_isa() == nullptr) GTEST_SKIP() << "only of oneDNN";
  const Isa other = std::string(onednn_isa()) == "avx512" ? Isa::kAvx2 : Isa::kAvx512;
  const auto library = make_library(1);
  GemmSpec spec{GemmKind::kForward, 16, 8, 8, 8, 8, 8, false, true, false};
  EXPECT_NE(library->make(spec), nullptr);
  EXPECT_THROW(onednn_products(other, 1), std::runtime_error);
  spec.type = GemmType::kBf16;
  EXPECT_THROW(library->make(spec), std::runtime_error);
}

}  // namespace
}  // namespace bascule::test::test_gemm
