// SPDX-License-Identifier: Apache-2.0
// Random crops of a training stream: by seed, epoch and row, and by nothing else.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "src/loader/loader.h"
#include "tests/loader/loader_run.h"

namespace bascule::test_random_crops {
namespace {

using test::emoji_settings;
using test::LoaderRun;

// Pixels by (epoch, row).
using Crops = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>>;

constexpr std::int64_t kEpochs = 2;

Manifest emoji() { return Manifest::load(test::emoji_folder() + "/test.jsonl", ManifestColumns()); }

LoaderSettings crop_settings(const Manifest& manifest) {
  LoaderSettings settings = emoji_settings(manifest);
  settings.random_crops = {Augment::kCropFlip, {0.08, 1.0}, {0.75, 4.0 / 3.0}};
  return settings;
}

// The crops of all ranks.
Crops crops_of(LoaderSettings settings) {
  Crops crops;
  StreamSettings& stream = settings.streams[0];
  for (stream.rank = 0; stream.rank < stream.world_size; ++stream.rank) {
    LoaderRun run(settings);
    run.stream().start(0, kEpochs * run.stream().batches_per_epoch());
    const Batch* batch = nullptr;
    while (run.stream().next(&batch).ok()) {
      const test::FilledBatch filled(*batch, settings.fields);
      const std::int64_t pixels = 3 * settings.image_side * settings.image_side;
      for (std::int64_t b = 0; b < batch->counts.samples(); ++b) {
        crops[{batch->epoch, batch->rows[b]}].assign(filled.pixels + b * pixels, filled.pixels + (b + 1) * pixels);
      }
      run.stream().release();
    }
  }
  return crops;
}

TEST(RandomCrops, DoNotDependOnBatchRankOrWorkers) {
  const Manifest manifest = emoji();
  LoaderSettings settings = crop_settings(manifest);
  settings.workers = 0;
  const Crops expected = crops_of(settings);
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kEpochs * manifest.rows()));
  for (const auto& [batch, ranks, workers] : {std::array<std::int64_t, 3>{7, 1, 3}, {4, 2, 1}, {1, 3, 2}}) {
    settings.streams[0].batch_per_rank = batch;
    settings.streams[0].world_size = ranks;
    settings.workers = workers;
    EXPECT_TRUE(crops_of(settings) == expected) << batch << " " << ranks << " " << workers;
  }
}

TEST(RandomCrops, AreOthersInEachEpochAndForEachSeed) {
  const Manifest manifest = emoji();
  LoaderSettings settings = crop_settings(manifest);
  const Crops first = crops_of(settings);
  settings.seed += 1;
  const Crops second = crops_of(settings);
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    EXPECT_NE(first.at({0, row}), first.at({1, row})) << row;
    EXPECT_NE(first.at({0, row}), second.at({0, row})) << row;
  }
}

TEST(RandomCrops, AreNotOfAnEvaluation) {
  const Manifest manifest = emoji();
  LoaderSettings settings = crop_settings(manifest);
  settings.streams[0].shuffled = false;
  const Crops crops = crops_of(settings);
  settings.random_crops = {};
  EXPECT_TRUE(crops_of(settings) == crops);
  settings.centre_crop_ratio = 0.875;
  EXPECT_FALSE(crops_of(settings) == crops);
}

}  // namespace
}  // namespace bascule::test_random_crops
