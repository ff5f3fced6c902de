// SPDX-License-Identifier: Apache-2.0
// Batches in which no text occurs twice, beside those of sentence-transformers for the same rows in the same order:
// tests/data/no_duplicates.json.
#include "src/loader/distinct_batches.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/loader/sampler.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_distinct_batches {
namespace {

constexpr std::uint64_t kSeed = 9;
using Batches = std::vector<std::vector<std::int64_t>>;

// The characters of a text.
std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> parts;
  for (const char byte : text) {
    if ((static_cast<unsigned char>(byte) & 0xc0U) != 0x80U) parts.emplace_back();
    parts.back().push_back(byte);
  }
  return parts;
}

// Rows whose order in epoch `epoch` is this one; a text is a character.
Manifest manifest_of(const test::TemporaryFolder& folder, const std::vector<std::string>& in_order,
                     std::int64_t epoch) {
  const std::int64_t count = static_cast<std::int64_t>(in_order.size());
  const EpochOrder order(kSeed, epoch, count);
  std::vector<std::string> rows(in_order.size());
  for (std::int64_t i = 0; i < count; ++i)
    rows[static_cast<std::size_t>(order.row(i))] = in_order[static_cast<std::size_t>(i)];
  ManifestColumns columns{"", "c0", "", 2};
  std::string header = "c0", lines;
  for (std::size_t i = 1; i < characters(rows[0]).size(); ++i) {
    const std::string name = "c" + std::to_string(i);
    header += "," + name;
    if (i == 1) columns.second_text = name;
    if (i > 1) columns.further_texts.push_back(name);
  }
  for (const std::string& row : rows) {
    std::string line;
    for (const std::string& text : characters(row)) line += (line.empty() ? "" : ",") + text;
    lines += line + "\n";
  }
  return Manifest::load(folder.write("rows.csv", header + "\n" + lines), columns);
}

Batches batches_of(const DistinctBatches& plan, std::int64_t epoch) {
  Batches batches;
  for (std::int64_t index = 0; index < plan.batches(epoch); ++index) {
    const SampleRange range = plan.batch(epoch, index);
    batches.emplace_back();
    for (std::int64_t i = 0; i < range.count; ++i) batches.back().push_back(plan.plain(epoch, range.begin + i));
  }
  return batches;
}

TEST(DistinctBatches, AreThoseOfSentenceTransformers) {
  const Json document = read_json_file(std::string(BASCULE_TEST_DATA) + "/no_duplicates.json");
  const test::TemporaryFolder folder;
  std::int64_t small = 0, left_out = 0;
  for (std::size_t i = 0; i < document["cases"].size(); ++i) {
    const Json& one = document["cases"][i];
    std::vector<std::string> rows;
    for (std::size_t row = 0; row < one["rows"].size(); ++row) rows.push_back(one["rows"][row].string());
    Batches expected;
    for (std::size_t batch = 0; batch < one["batches"].size(); ++batch) {
      expected.emplace_back();
      for (std::size_t row = 0; row < one["batches"][batch].size(); ++row)
        expected.back().push_back(one["batches"][batch][row].integer());
    }
    const std::int64_t epoch = static_cast<std::int64_t>(i % 2), batch = one["batch"].integer();
    const Manifest manifest = manifest_of(folder, rows, epoch);
    // Two ranks have together the batch of one.
    const std::int64_t ranks = batch % 2 == 0 ? 2 : 1;
    DistinctBatches plan(manifest, kSeed, {manifest.rows(), ranks, batch / ranks, one["drop_last"].boolean()});
    for (std::int64_t e = 0; e <= epoch; ++e) plan.add_epoch();
    ASSERT_EQ(batches_of(plan, epoch), expected) << i;
    small += plan.small_batches();
    left_out += plan.rows_left_out();
  }
  EXPECT_GT(small, 50);
  EXPECT_GT(left_out, 50);
}

// Every epoch has an order of its own; the batches of all count on.
TEST(DistinctBatches, AreFoundByTheirNumbersInTheRun) {
  const test::TemporaryFolder folder;
  std::vector<std::string> rows;
  for (int i = 0; i < 40; ++i)
    rows.push_back(std::string(1, static_cast<char>('a' + i % 4)) + static_cast<char>('A' + i % 25));
  const Manifest manifest = manifest_of(folder, rows, 0);
  DistinctBatches plan(manifest, kSeed, {40, 1, 5, false});
  for (int epoch = 0; epoch < 3; ++epoch) plan.add_epoch();
  BatchDealing dealing;
  dealing.seed = kSeed;
  dealing.rows = 40;
  dealing.batch_per_rank = 5;
  dealing.distinct = &plan;
  const BatchOrder order(dealing);
  std::int64_t number = 0;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const EpochOrder of_epoch = order.epoch_order(epoch);
    std::set<std::int64_t> seen;
    for (std::int64_t index = 0; index < plan.batches(epoch); ++index, ++number) {
      const BatchPlace place = order.place(number);
      EXPECT_EQ(place.epoch, epoch);
      EXPECT_EQ(place.index, index);
      std::set<std::string> texts;
      for (std::int64_t i = 0; i < place.count; ++i) {
        const std::int64_t row = order.row(of_epoch, epoch, place.first_position + i);
        EXPECT_TRUE(seen.insert(row).second);
        for (std::size_t column = 0; column < 2; ++column)
          EXPECT_TRUE(texts.emplace(manifest.text(row, column)).second);
      }
      EXPECT_EQ(static_cast<std::int64_t>(texts.size()), 2 * place.count);
    }
    EXPECT_EQ(seen.size(), 40U);
    EXPECT_EQ(plan.samples_before(epoch + 1), 40 * (epoch + 1));
  }
  EXPECT_EQ(plan.batches_before(3), number);
  EXPECT_GT(plan.small_batches(), 0);
}

// Rows that all have one of few texts wait in line, and are not looked at again and again.
TEST(DistinctBatches, OfManyRowsWithFewTextsArePlannedFast) {
  const test::TemporaryFolder folder;
  std::string lines = "a,b\n";
  for (int i = 0; i < 60000; ++i) lines += "q" + std::to_string(i) + ",answer " + std::to_string(i % 7) + "\n";
  const Manifest manifest = Manifest::load(folder.write("rows.csv", lines), {"", "a", "", 2, "b"});
  DistinctBatches plan(manifest, kSeed, {60000, 1, 64, false});
  plan.add_epoch();
  EXPECT_GE(plan.batches(0), 60000 / 7);
  EXPECT_EQ(plan.samples_before(1), 60000);
}

// Without duplicates there is nothing to remember but where batches end.
TEST(DistinctBatches, TakeMemoryForRowsThatWaitAlone) {
  const test::TemporaryFolder folder;
  std::string lines = "a,b\n";
  for (int i = 0; i < 1000; ++i) lines += "q" + std::to_string(i) + ",a" + std::to_string(i) + "\n";
  const Manifest manifest = Manifest::load(folder.write("rows.csv", lines), {"", "a", "", 2, "b"});
  DistinctBatches plan(manifest, kSeed, {1000, 1, 10, false});
  EXPECT_FALSE(plan.has_duplicates());
  plan.add_epoch();
  EXPECT_EQ(plan.bytes(), (100 + 2) * sizeof(std::uint32_t));
  EXPECT_EQ(plan.batch(0, 99).begin, 990);
}

// What they take with batches of another size is told without planning them.
TEST(DistinctBatches, TheirMemoryWithAnotherBatchIsEstimated) {
  const test::TemporaryFolder folder;
  std::string lines = "a,b\n";
  for (int i = 0; i < 2000; ++i)
    lines += "q" + std::to_string(i) + ",a" + std::to_string(i % 10 == 0 ? i % 90 : i) + "\n";
  const Manifest manifest = Manifest::load(folder.write("rows.csv", lines), {"", "a", "", 2, "b"});
  const auto planned = [&](std::int64_t batch) {
    DistinctBatches plan(manifest, kSeed, {2000, 1, batch, false});
    for (int epoch = 0; epoch < 5; ++epoch) plan.add_epoch();
    return plan;
  };
  const DistinctBatches plan = planned(16);
  EXPECT_EQ(plan.bytes_like({2000, 2, 8, false}), plan.bytes());
  for (const std::int64_t batch : {1, 4, 15, 17, 32, 64}) {
    const std::size_t bytes = planned(batch).bytes(), estimate = plan.bytes_like({2000, 1, batch, false});
    EXPECT_GE(estimate, bytes) << batch;
    EXPECT_LE(estimate, 4 * bytes) << batch;
  }
}

}  // namespace
}  // namespace bascule::test_distinct_batches
