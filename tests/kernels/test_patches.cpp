// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "kernels/reference/patches.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_patches {
namespace {

TEST(Patches, ExtractionCutsLeftToRightTopToBottomAndDropsTheRest) {
  Seeded random;
  const std::int64_t cases[][4] = {{3, 32, 32, 16}, {1, 26, 27, 8}, {3, 29, 43, 14}, {2, 5, 7, 1}, {3, 66, 40, 33}};
  for (const auto& size : cases) {
    const ExtractPatches shape{nullptr, nullptr, size[0], size[1], size[2], size[3]};
    const std::int64_t count =
        (shape.height / shape.patch) * (shape.width / shape.patch) * shape.channels * shape.patch * shape.patch;
    const auto pixels = normal(random, shape.channels * shape.height * shape.width);
    std::vector<float> truth(static_cast<std::size_t>(count));
    reference::extract_patches(truth.data(), pixels.data(), shape);
    for (const Place place : kPlaces) {
      const auto out = same_on_every_isa([&](const KernelTable& kernels) {
        Floats y(count, place), x(pixels, place);
        kernels.extract_patches({y.data(), x.data(), shape.channels, shape.height, shape.width, shape.patch});
        return y.values();
      });
      EXPECT_EQ(first_different_bit(out, truth), -1) << shape.patch;
    }
  }
}

constexpr std::int64_t kPatches = 4;
constexpr std::int64_t kSamples = 6;

TEST(Patches, EmbeddingPutsTheClassRowFirst) {
  Seeded random;
  for (const std::int64_t cols : lengths()) {
    const auto patch = normal(random, kPatches * cols), class_row = normal(random, cols);
    const auto position = normal(random, (kPatches + 1) * cols);
    std::vector<float> truth(position.size());
    reference::image_embedding_forward(truth.data(), patch.data(), class_row.data(), position.data(),
                                       {nullptr, nullptr, nullptr, nullptr, kPatches, cols});
    for (const Place place : kPlaces) {
      const auto out = same_on_every_isa([&](const KernelTable& kernels) {
        Floats y((kPatches + 1) * cols, place), x(patch, place), c(class_row, place), p(position, place);
        kernels.image_embedding_forward({y.data(), x.data(), c.data(), p.data(), kPatches, cols});
        return y.values();
      });
      EXPECT_EQ(first_different_bit(out, truth), -1) << cols;
    }
  }
}

TEST(Patches, EmbeddingWithoutAClassRowAddsPositionsToPatches) {
  Seeded random;
  for (const std::int64_t cols : lengths()) {
    const auto patch = normal(random, kPatches * cols), position = normal(random, kPatches * cols);
    std::vector<float> truth(position.size());
    reference::image_embedding_forward<float>(truth.data(), patch.data(), nullptr, position.data(),
                                              {nullptr, nullptr, nullptr, nullptr, kPatches, cols});
    const auto out = same_on_every_isa([&](const KernelTable& kernels) {
      Floats y(kPatches * cols, kPlaces[0]), x(patch, kPlaces[0]), p(position, kPlaces[0]);
      kernels.image_embedding_forward({y.data(), x.data(), nullptr, p.data(), kPatches, cols});
      return y.values();
    });
    EXPECT_EQ(first_different_bit(out, truth), -1) << cols;
  }
}

// A sum of n numbers has n - 1 roundings of the largest partial sum; the mean one more.
TEST(Patches, MeanRowsAndItsGradientAreWithinTheirBounds) {
  Seeded random;
  for (const std::int64_t rows : {1, 16, 17, 50}) {
    for (const std::int64_t cols : lengths(1)) {
      const auto x = normal(random, kSamples * rows * cols), d_out = normal(random, kSamples * cols);
      std::vector<double> mean = zeros(kSamples * cols), d_x = widened(x);
      reference::mean_rows_forward(mean.data(), widened(x).data(), {nullptr, nullptr, kSamples, rows, cols});
      reference::mean_rows_backward(d_x.data(), widened(d_out).data(), {nullptr, nullptr, kSamples, rows, cols, true});
      for (const Place place : kPlaces) {
        const auto values = same_on_every_isa([&](const KernelTable& kernels) {
          Floats out(kSamples * cols, place), in(x, place), d(d_out, place), written(kSamples * rows * cols, place);
          kernels.mean_rows_forward({out.data(), in.data(), kSamples, rows, cols});
          kernels.mean_rows_backward({written.data(), d.data(), kSamples, rows, cols, false});
          kernels.mean_rows_backward({in.data(), d.data(), kSamples, rows, cols, true});
          const std::vector<float> first = written.values();
          for (std::int64_t i = 0; i < kSamples * rows * cols; ++i) {
            const std::size_t from = static_cast<std::size_t>(i / (rows * cols) * cols + i % cols);
            EXPECT_NEAR(static_cast<double>(first[static_cast<std::size_t>(i)]),
                        static_cast<double>(d_out[from]) / static_cast<double>(rows), 2 * kEpsilon * 8.0);
          }
          return joined({out.values(), in.values()});
        });
        const double bound = kEpsilon * 8.0 * 8.0;  // 8 sigma, sums of 16 rows and of these, less in the mean
        expect_within(values, 0, mean, std::vector<double>(mean.size(), bound), "mean");
        expect_within(values, mean.size(), d_x, std::vector<double>(d_x.size(), bound), "d_x");
      }
    }
  }
}

struct BackwardCase {
  bool patch, class_row, position, accumulate;
  std::int64_t first, last;
  std::int64_t class_rows = 1;
};

// kSamples additions, and one to what is there: so many roundings of the largest partial sum apart from the truth.
void check_backward(const BackwardCase& c, std::int64_t cols, Place place, Seeded& random) {
  const auto d_out = normal(random, kSamples * (kPatches + c.class_rows) * cols);
  const auto before = normal(random, (kPatches + c.class_rows) * cols), class_before = normal(random, cols);
  std::vector<double> d_patch(static_cast<std::size_t>(kSamples * kPatches * cols), 3.0);
  std::vector<double> d_class = widened(class_before), d_position = widened(before);
  const ImageEmbeddingBackward a{nullptr, nullptr, nullptr, nullptr,      kSamples,     kPatches,
                                 cols,    c.first, c.last,  c.accumulate, c.accumulate, c.class_rows};
  reference::image_embedding_backward(c.patch ? d_patch.data() : nullptr, c.class_row ? d_class.data() : nullptr,
                                      c.position ? d_position.data() : nullptr, widened(d_out).data(), a);
  const auto out = same_on_every_isa([&](const KernelTable& kernels) {
    Floats patch(std::vector<float>(d_patch.size(), 3.0f), place), class_row(class_before, place);
    Floats position(before, place), d(d_out, place);
    ImageEmbeddingBackward b = a;
    b.d_patch = c.patch ? patch.data() : nullptr;
    b.d_class = c.class_row ? class_row.data() : nullptr;
    b.d_position = c.position ? position.data() : nullptr;
    b.d_out = d.data();
    kernels.image_embedding_backward(b);
    return joined({patch.values(), class_row.values(), position.values()});
  });
  const double largest = 8.0 * static_cast<double>(kSamples);  // 8 sigma a sample
  const std::vector<double> exact(d_patch.size(), 0.0);
  expect_within(out, 0, d_patch, exact, "d_patch");
  const double bound = kEpsilon * static_cast<double>(kSamples) * largest;
  expect_within(out, d_patch.size(), d_class, std::vector<double>(d_class.size(), bound), "d_class");
  expect_within(out, d_patch.size() + d_class.size(), d_position, std::vector<double>(d_position.size(), bound),
                "d_position");
}

TEST(Patches, EmbeddingBackwardSumsSamplesAndTouchesItsRowsOnly) {
  Seeded random;
  const BackwardCase cases[] = {{true, true, true, false, 0, kPatches + 1},
                                {true, true, true, true, 0, kPatches + 1},
                                {true, true, true, true, 2, 4},
                                {false, true, false, false, 0, 1},
                                {true, false, false, false, 0, 3},
                                {true, false, true, true, 0, kPatches, 0},
                                {true, false, false, false, 1, 3, 0}};
  for (const std::int64_t cols : lengths(1)) {
    for (const BackwardCase& c : cases) {
      for (const Place place : kPlaces) check_backward(c, cols, place, random);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_patches
