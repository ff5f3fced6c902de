// SPDX-License-Identifier: Apache-2.0
#include "src/loader/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/seeded.h"

namespace bascule::test_sampler {
namespace {

using test::Seeded;

std::vector<std::int64_t> all_rows(const EpochOrder& order) {
  std::vector<std::int64_t> rows;
  for (std::int64_t position = 0; position < order.rows(); ++position) rows.push_back(order.row(position));
  return rows;
}

bool is_permutation_of_rows(std::vector<std::int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

TEST(Sampler, VisitsEveryRowOnceForEveryNumberOfRows) {
  Seeded random;
  for (std::int64_t rows = 1; rows <= 2000; ++rows) {
    const EpochOrder order(random.bits(), random.integer(0, 1000), rows);
    ASSERT_TRUE(is_permutation_of_rows(all_rows(order))) << rows;
  }
  for (const std::int64_t rows : {65535, 65536, 65537, 1000003}) {
    ASSERT_TRUE(is_permutation_of_rows(all_rows(EpochOrder(random.bits(), 7, rows)))) << rows;
  }
}

TEST(Sampler, StaysBelowTheNumberOfRowsUpToTwoToTheForty) {
  Seeded random;
  for (const std::int64_t rows : {std::int64_t{1} << 40, (std::int64_t{1} << 40) - 1, (std::int64_t{1} << 39) + 1}) {
    const EpochOrder order(random.bits(), 3, rows);
    for (int i = 0; i < 1000; ++i) {
      const std::int64_t row = order.row(random.integer(0, rows - 1));
      ASSERT_GE(row, 0);
      ASSERT_LT(row, rows);
    }
  }
}

TEST(Sampler, GivesTheSameOrderAgainAndAnotherForAnotherSeedOrEpoch) {
  const std::vector<std::int64_t> first = all_rows(EpochOrder(42, 0, 500));
  EXPECT_EQ(first, all_rows(EpochOrder(42, 0, 500)));
  EXPECT_NE(first, all_rows(EpochOrder(42, 1, 500)));
  EXPECT_NE(first, all_rows(EpochOrder(43, 0, 500)));
  EXPECT_NE(first, all_rows(EpochOrder(42, std::int64_t{1} << 32, 500)));
  EXPECT_NE(first, all_rows(EpochOrder(42 | std::uint64_t{1} << 32, 0, 500)));
}

// Over E epochs each (position, row) pair is expected E / n times. The statistic sum (seen - E/n)^2 / (E/n) over the
// n^2 pairs has (n-1)^2 degrees of freedom; 6 standard deviations (sqrt(2 (n-1)^2)) are left as room.
TEST(Sampler, SendsEveryPositionToEveryRowEquallyOften) {
  for (const std::int64_t rows : {2, 3, 5, 8, 16, 31, 64, 65}) {
    constexpr std::int64_t kEpochs = 20000;
    const std::size_t n = static_cast<std::size_t>(rows);
    std::vector<double> seen(n * n, 0.0);
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const EpochOrder order(2024, epoch, rows);
      for (std::size_t i = 0; i < n; ++i) {
        seen[i * n + static_cast<std::size_t>(order.row(static_cast<std::int64_t>(i)))] += 1.0;
      }
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(rows);
    double statistic = 0.0;
    for (const double count : seen) statistic += (count - expected) * (count - expected) / expected;
    const double freedom = static_cast<double>((rows - 1) * (rows - 1));
    EXPECT_LT(std::fabs(statistic - freedom), 6.0 * std::sqrt(2.0 * freedom)) << rows << " rows";
  }
}

// Neighbours in the epoch must not be neighbours in the file: the chance that row(p + 1) follows row(p) is 1 / n each,
// so the number of such places is Poisson with mean 1; 12 or more have a chance below 1e-9.
TEST(Sampler, LeavesNoNeighboursTogether) {
  for (const std::int64_t rows : {1000, 4096, 100000}) {
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      const EpochOrder order(1, epoch, rows);
      std::int64_t together = 0;
      for (std::int64_t i = 0; i + 1 < rows; ++i) together += order.row(i + 1) == order.row(i) + 1 ? 1 : 0;
      EXPECT_LT(together, 12) << rows;
    }
  }
}

TEST(BatchCut, DealsEverySampleExactlyOnceWhateverTheBatchAndTheWorld) {
  Seeded random;
  for (int round = 0; round < 2000; ++round) {
    BatchCut cut;
    cut.rows = random.integer(1, 300);
    cut.world_size = random.integer(1, 9);
    cut.batch_per_rank = random.integer(1, 40);
    cut.drop_last = random.chance(0.5);
    cut.dealt = random.integer(1, 3);
    cut.batch_per_rank *= cut.dealt;
    std::int64_t next = 0;
    for (std::int64_t index = 0; index < cut.batches_per_epoch(); ++index) {
      const SampleRange batch = cut.batch(index);
      ASSERT_EQ(batch.begin, next);
      const bool last = index + 1 == cut.batches_per_epoch();
      ASSERT_TRUE(batch.count == cut.global_batch() || (last && !cut.drop_last && batch.count > 0));
      for (std::int64_t rank = 0; rank < cut.world_size; ++rank) {
        const SampleRange share = cut.share(batch, rank);
        ASSERT_EQ(share.begin, next);
        ASSERT_LT(std::abs(share.count - batch.count / cut.world_size), 2 * cut.dealt);
        ASSERT_TRUE(share.begin % cut.dealt == 0 || share.count == 0);
        ASSERT_LE(share.count, cut.batch_per_rank);
        next += share.count;
      }
      ASSERT_EQ(next, batch.begin + batch.count);
    }
    ASSERT_EQ(next, cut.samples_per_epoch());
    ASSERT_EQ(next, cut.drop_last ? cut.rows / cut.global_batch() * cut.global_batch() : cut.rows);
  }
}

}  // namespace
}  // namespace bascule::test_sampler
