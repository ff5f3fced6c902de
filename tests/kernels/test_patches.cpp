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

TEST(Patches, EmbeddingPutsTheClassRowsFirst) {
  Seeded random;
  for (const std::int64_t class_rows : {0, 1, 2}) {
    for (const std::int64_t cols : lengths()) {
      const auto patch = normal(random, kPatches * cols), class_row = normal(random, class_rows * cols);
      const auto position = normal(random, (kPatches + class_rows) * cols);
      std::vector<float> truth(position.size());
      reference::image_embedding_forward(truth.data(), patch.data(), class_row.data(), position.data(),
                                         {nullptr, nullptr, nullptr, nullptr, kPatches, cols, class_rows});
      for (const Place place : kPlaces) {
        const auto out = same_on_every_isa([&](const KernelTable& kernels) {
          Floats y((kPatches + class_rows) * cols, place), x(patch, place), c(class_row, place), p(position, place);
          kernels.image_embedding_forward({y.data(), x.data(), c.data(), p.data(), kPatches, cols, class_rows});
          return y.values();
        });
        EXPECT_EQ(first_different_bit(out, truth), -1) << class_rows << " " << cols;
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
  const auto before = normal(random, (kPatches + c.class_rows) * cols),
             class_before = normal(random, c.class_rows * cols);
  std::vector<double> d_patch(static_cast<std::size_t>(kSamples * kPatches * cols), 3.0);
  std::vector<double> d_class = widened(class_before), d_position = widened(before);
  const ImageEmbeddingBackward a{nullptr, nullptr,      nullptr, nullptr, kSamples,     kPatches,
                                 cols,    c.class_rows, c.first, c.last,  c.accumulate, c.accumulate};
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
                                {true, false, false, false, 1, 3, 0},
                                {true, true, true, true, 0, kPatches + 2, 2},
                                {true, true, true, false, 1, 4, 2}};
  for (const std::int64_t cols : lengths(1)) {
    for (const BackwardCase& c : cases) {
      for (const Place place : kPlaces) check_backward(c, cols, place, random);
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_patches
