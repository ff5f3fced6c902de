// SPDX-License-Identifier: Apache-2.0
// Mixup and cutmix: draws against tools/make_mix_goldens.py, which makes them apart; batches against the same batches
// unmixed.
#include "src/loader/augmenting.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "src/loader/loader.h"
#include "tests/loader/loader_run.h"

namespace bascule::test_mixing {
namespace {

using test::emoji_settings;

constexpr std::int64_t kClasses = 10, kSide = 32, kPixels = 3 * kSide * kSide;
constexpr std::int64_t kEpochs = 2;

TEST(Mixing, DrawsWhatTheDefinitionSays) {
  const Json document = read_json_file(BASCULE_TEST_DATA "/images/mixes.json");
  int checked = 0;
  for (const Json& pair : document["pairs"]) {
    const MixSettings settings{static_cast<std::uint64_t>(pair[0].integer()), pair[4].number(), pair[5].number(),
                               pair[3].integer()};
    const PairMix mix = draw_mix(settings, pair[1].integer(), pair[2].integer());
    EXPECT_EQ(mix.cuts ? 1 : 0, pair[6].integer()) << json_text(pair);
    EXPECT_NEAR(mix.share, pair[7].number(), 1e-13) << json_text(pair);
    const std::array<std::int64_t, 4> box = {mix.x_begin, mix.x_end, mix.y_begin, mix.y_end};
    for (std::size_t i = 0; i < box.size(); ++i) EXPECT_EQ(box[i], pair[8 + i].integer()) << json_text(pair);
    ++checked;
  }
  EXPECT_EQ(checked, 1000);
}

struct Sample {
  std::vector<float> pixels;
  std::int64_t row = 0;
  std::int32_t label = -1, mixed_label = -1;
  float share = -1.0F;

  bool operator==(const Sample& other) const {
    return pixels == other.pixels && row == other.row && label == other.label && mixed_label == other.mixed_label &&
           share == other.share;
  }
};
using Samples = std::map<std::pair<std::int64_t, std::int64_t>, Sample>;  // by epoch and position

LoaderSettings class_settings(const Manifest& manifest, std::int64_t batch) {
  LoaderSettings settings = emoji_settings(manifest);
  const Extent samples = rows_per_sample(1);
  settings.tokenizer = nullptr;
  settings.fields = {{"pixels", DType::kFloat32, samples, kPixels, FieldSource::kPixels},
                     {"labels", DType::kInt32, samples, 1, FieldSource::kClassLabels},
                     {"mixed_labels", DType::kInt32, samples, 1, FieldSource::kMixedLabels},
                     {"label_shares", DType::kFloat32, samples, 1, FieldSource::kLabelShares}};
  settings.streams[0].batch_per_rank = batch;
  settings.random_crops = {Augment::kCropFlip, {0.08, 1.0}, {0.75, 4.0 / 3.0}};
  return settings;
}

Samples samples_of(const LoaderSettings& settings) {
  Samples samples;
  test::for_batches(settings, kEpochs, [&](const Batch& batch) {
    for (std::int64_t b = 0; b < batch.counts.samples(); ++b) {
      const float* const pixels = batch.field<float>(0) + b * kPixels;
      samples[{batch.epoch, batch.first_position + b}] = {{pixels, pixels + kPixels},
                                                          batch.rows[b],
                                                          batch.field<std::int32_t>(1)[b],
                                                          batch.field<std::int32_t>(2)[b],
                                                          batch.field<float>(3)[b]};
    }
  });
  return samples;
}

Manifest classes() {
  ManifestColumns columns;
  columns.text = "";
  columns.label = "label";
  columns.classes = kClasses;
  return Manifest::load(std::string(BASCULE_TEST_DATA) + "/emoji-classes/test.jsonl", columns);
}

// The mixed pixel of a sample that stands at (x, y) of a plane.
double mixed(const PairMix& mix, double own, double other, std::int64_t x, std::int64_t y) {
  if (!mix.cuts) return mix.share * own + (1.0 - mix.share) * other;
  return x >= mix.x_begin && x < mix.x_end && y >= mix.y_begin && y < mix.y_end ? other : own;
}

TEST(Mixing, MixesPicturesAndLabelsOfPairsInTheEpochsOrder) {
  const Manifest manifest = classes();
  ASSERT_EQ(manifest.rows() % 2, 1);
  LoaderSettings settings = class_settings(manifest, 8);
  const Samples plain = samples_of(settings);
  settings.mixup_alpha = 0.8;
  settings.cutmix_alpha = 1.0;
  const Samples found = samples_of(settings);
  ASSERT_EQ(found.size(), static_cast<std::size_t>(kEpochs * manifest.rows()));
  int cut = 0;
  for (const auto& [place, sample] : found) {
    const auto& [epoch, position] = place;
    const Sample& own = plain.at(place);
    ASSERT_EQ(std::make_pair(sample.row, sample.label), std::make_pair(own.row, own.label));
    if (position == manifest.rows() - 1) {  // has no partner
      EXPECT_EQ(sample.pixels, own.pixels);
      EXPECT_EQ(std::make_pair(sample.mixed_label, sample.share), std::make_pair(own.label, 1.0F));
      continue;
    }
    const Sample& other = plain.at({epoch, position ^ 1});
    const PairMix mix = draw_mix({settings.seed, 0.8, 1.0, kSide}, epoch, position / 2);
    cut += mix.cuts ? 1 : 0;
    EXPECT_EQ(sample.mixed_label, other.label);
    EXPECT_EQ(sample.share, static_cast<float>(mix.share));
    double largest = 0.0;
    for (std::int64_t i = 0; i < kPixels; ++i) {
      const std::size_t at = static_cast<std::size_t>(i);
      const double expected = mixed(mix, static_cast<double>(own.pixels[at]), static_cast<double>(other.pixels[at]),
                                    i % kSide, i / kSide % kSide);
      largest = std::max(largest, std::abs(static_cast<double>(sample.pixels[at]) - expected));
    }
    EXPECT_LE(largest, 2e-6) << position;
  }
  EXPECT_GT(cut, 40);
  EXPECT_LT(cut, 140);
}

TEST(Mixing, DoesNotDependOnBatchRanksOrWorkers) {
  const Manifest manifest = classes();
  LoaderSettings settings = class_settings(manifest, 8);
  settings.mixup_alpha = settings.cutmix_alpha = 1.0;
  settings.workers = 0;
  const Samples expected = samples_of(settings);
  for (const auto& [batch, ranks, workers] : {std::array<std::int64_t, 3>{2, 1, 3}, {4, 3, 1}, {6, 2, 2}}) {
    settings.streams[0].batch_per_rank = batch;
    settings.streams[0].world_size = ranks;
    settings.workers = workers;
    EXPECT_TRUE(samples_of(settings) == expected) << batch << " " << ranks << " " << workers;
  }
}

TEST(Mixing, IsNotOfAnEvaluation) {
  const Manifest manifest = classes();
  LoaderSettings settings = class_settings(manifest, 7);
  settings.streams[0].shuffled = false;
  const Samples expected = samples_of(settings);
  settings.mixup_alpha = 1.0;
  EXPECT_TRUE(samples_of(settings) == expected);
  for (const auto& [place, sample] : expected) EXPECT_EQ(sample.share, 1.0F);
}

}  // namespace
}  // namespace bascule::test_mixing
