// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "kernels/reference/embedding.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_embedding {
namespace {

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kTable = 5;
const std::int32_t kWords[kRows] = {1, 4, 1, 0, 3, 1};
const std::int32_t kPositions[kRows] = {2, 3, 4, 2, 1, 1};
const std::int32_t kDistinct[3] = {4, 0, 2};

const std::int32_t kTypes[kRows] = {0, 0, 1, 1, 0, 1};

// All of these kernels only add, in an order that the reference shares: in float it gives the very bits.
TEST(Embedding, ForwardGivesTheBitsOfTheReference) {
  Seeded random;
  for (const std::int64_t cols : lengths()) {
    const auto word = normal(random, kTable * cols), position = normal(random, kTable * cols);
    const auto type = normal(random, 2 * cols);
    for (const std::int32_t* const types : {static_cast<const std::int32_t*>(nullptr), kTypes}) {
      TextEmbeddingForward a{nullptr, nullptr, nullptr, nullptr, kWords, kPositions, types, kRows, cols};
      std::vector<float> truth(static_cast<std::size_t>(kRows * cols));
      reference::text_embedding_forward(truth.data(), word.data(), position.data(), type.data(), a);
      for (const Place place : kPlaces) {
        const auto out = same_on_every_isa([&](const KernelTable& kernels) {
          Floats y(kRows * cols, place), w(word, place), p(position, place), t(type, place);
          kernels.text_embedding_forward(
              {y.data(), w.data(), p.data(), t.data(), kWords, kPositions, types, kRows, cols});
          return y.values();
        });
        EXPECT_EQ(first_different_bit(out, truth), -1) << cols;
      }
    }
  }
}

TEST(Embedding, BackwardAddsRowsInOrderWithinItsColumnsAndLeavesThePaddingRowAlone) {
  Seeded random;
  for (const std::int64_t cols : lengths(1)) {
    const auto table = normal(random, kTable * cols), d_out = normal(random, kRows * cols);
    for (const std::int32_t skip : {-1, 1}) {
      const std::int64_t first = cols / 3, last = cols - cols / 4;
      EmbeddingBackward a{nullptr, nullptr, kWords, kRows, cols, first, last, skip};
      std::vector<float> truth = table;
      reference::embedding_backward(truth.data(), d_out.data(), a);
      for (const Place place : kPlaces) {
        const auto out = same_on_every_isa([&](const KernelTable& kernels) {
          Floats t(table, place), d(d_out, place);
          kernels.embedding_backward({t.data(), d.data(), kWords, kRows, cols, first, last, skip});
          return t.values();
        });
        EXPECT_EQ(first_different_bit(out, truth), -1) << cols;
      }
    }
  }
}

TEST(Embedding, GatherCopiesRowsAndScatterPutsThemBack) {
  Seeded random;
  for (const std::int64_t cols : lengths()) {
    const auto x = normal(random, kTable * cols), rows = normal(random, 3 * cols);
    std::vector<float> gathered(static_cast<std::size_t>(kRows * cols)), stored = x, added = x;
    reference::gather_rows(gathered.data(), x.data(), {nullptr, nullptr, kWords, kRows, cols});
    reference::scatter_rows(stored.data(), rows.data(), {nullptr, nullptr, kDistinct, 3, cols, false});
    reference::scatter_rows(added.data(), rows.data(), {nullptr, nullptr, kDistinct, 3, cols, true});
    for (const Place place : kPlaces) {
      const auto out = same_on_every_isa([&](const KernelTable& kernels) {
        Floats g(kRows * cols, place), in(x, place), s(x, place), t(x, place), r(rows, place);
        kernels.gather_rows({g.data(), in.data(), kWords, kRows, cols});
        kernels.scatter_rows({s.data(), r.data(), kDistinct, 3, cols, false});
        kernels.scatter_rows({t.data(), r.data(), kDistinct, 3, cols, true});
        return joined({g.values(), s.values(), t.values()});
      });
      EXPECT_EQ(first_different_bit(out, joined({gathered, stored, added})), -1) << cols;
    }
  }
}

}  // namespace
}  // namespace bascule::test::test_embedding
