// SPDX-License-Identifier: Apache-2.0
// Random crops, RandAugment, colour jitter and random erasing: by seed, epoch and row, and by nothing else; operations,
// draws and whole pictures against torchvision's (tools/make_augment_goldens.py); batches against the same batches
// without them.
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
#include "tests/support/count_allocations.h"
#include "tests/support/sha256.h"

namespace bascule::test_augmenting {
namespace {

using test::emoji_settings;
using test::LoaderRun;

constexpr double kMean[3] = {0.48145466, 0.4578275, 0.40821073};
constexpr double kStd[3] = {0.26862954, 0.26130258, 0.27577711};
constexpr std::int64_t kEpochs = 2;

const Json& goldens() {
  static const Json document = read_json_file(BASCULE_TEST_DATA "/images/augmented.json");
  return document;
}

// The value of a pixel of the goldens' pictures.
int pattern(std::int64_t number, std::int64_t c, std::int64_t y, std::int64_t x) {
  const std::int64_t wave = (x * (7 + 3 * c) + y * (11 - 2 * c) + x * y / 5 + 60 * ((x / 6 + y / 5) % 2)) % 256;
  const auto place = static_cast<std::uint64_t>(x * x * 31 + y * 17 * (c + 1) + x * y * 101 + c * 77);
  switch (number) {
    case 0: return static_cast<int>(wave);
    case 1: return static_cast<int>(wave / 4 + 20);
    case 2: return static_cast<int>(40 + 80 * c);
    default: return static_cast<int>(static_cast<std::uint32_t>(place * 2654435761u) >> 24);
  }
}

class Picture {
 public:
  Picture(std::int64_t number, std::int64_t side) : bytes_(static_cast<std::size_t>(6 * side * side)), side_(side) {
    std::size_t at = 0;
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < side; ++y) {
        for (std::int64_t x = 0; x < side; ++x) bytes_[at++] = static_cast<std::uint8_t>(pattern(number, c, y, x));
      }
    }
  }
  BytePicture view() { return {bytes_.data(), bytes_.data() + bytes_.size() / 2, side_}; }
  std::vector<float> floats() const {
    return {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(bytes_.size() / 2)};
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::int64_t side_;
};

std::string digest(const void* data, std::size_t bytes) { return test::sha256_hex(data, bytes).substr(0, 16); }

constexpr const char* kNames[kPictureOperations] = {
    "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
    "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};

TEST(RandAugment, HasTorchvisionsMagnitudes) {
  int checked = 0;
  for (const Json& one : goldens()["magnitudes"]) {
    RandAugmentSettings settings;
    settings.num_magnitude_bins = one[1].integer();
    settings.magnitude = one[2].integer();
    const auto operation = static_cast<PictureOperation>(one[0].integer());
    const double expected = one[4].number();
    EXPECT_NEAR(magnitude_of(operation, settings, one[3].integer()), expected, 3e-7 * std::max(expected, 0.01))
        << json_text(one);
    ++checked;
  }
  EXPECT_GT(checked, 150);
}

// Small letters: of colour jitter, whose magnitude is the factor.
void apply(const std::string& name, double magnitude, const BytePicture& picture) {
  if (name == "brightness") return adjust_brightness(picture, magnitude);
  if (name == "contrast") return adjust_contrast(picture, magnitude);
  if (name == "saturation") return adjust_saturation(picture, magnitude);
  if (name == "hue") return adjust_hue(picture, magnitude);
  for (std::uint32_t i = 0; i < kPictureOperations; ++i) {
    if (name == kNames[i]) return apply_operation(static_cast<PictureOperation>(i), magnitude, picture);
  }
  FAIL() << name;
}

TEST(Augmenting, OperationsGiveTorchvisionsBytes) {
  int checked = 0;
  for (const Json& one : goldens()["operations"]) {
    Picture picture(one[2].integer(), one[3].integer());
    apply(one[0].string(), one[1].number(), picture.view());
    EXPECT_EQ(digest(picture.view().pixels, static_cast<std::size_t>(picture.view().values())), one[4].string())
        << json_text(one);
    ++checked;
  }
  EXPECT_GT(checked, 400);
}

Augmenting augmenting_of(const Json& one) {
  Augmenting augmenting;
  augmenting.side = one[1].integer();
  augmenting.rand_augment = {one[5].integer(), one[6].integer(), one[7].integer()};
  augmenting.color_jitter = {one[8].number(), one[9].number(), one[10].number(), one[11].number()};
  augmenting.random_erasing = {
      one[12].number(), {one[13].number(), one[14].number()}, {one[15].number(), one[16].number()}};
  std::copy(kMean, kMean + 3, augmenting.mean);
  std::copy(kStd, kStd + 3, augmenting.std);
  return augmenting;
}

TEST(Augmenting, GivesTheVeryFloatsOfTorchvisionInTheOrderThatIsSaid) {
  for (const Json& one : goldens()["pictures"]) {
    const Augmenting augmenting = augmenting_of(one);
    std::vector<float> pixels = Picture(one[0].integer(), augmenting.side).floats();
    std::vector<std::byte> scratch(augmenting_scratch_bytes(augmenting));
    augment_picture(pixels.data(), augmenting, static_cast<std::uint64_t>(one[2].integer()), one[3].integer(),
                    one[4].integer(), {scratch.data(), scratch.size()});
    EXPECT_EQ(digest(pixels.data(), pixels.size() * sizeof(float)), one[17].string()) << json_text(one);
  }
}

TEST(Augmenting, RoundsToTheNearestByteAndCutsOff) {
  Augmenting augmenting;
  augmenting.side = 2;
  augmenting.rand_augment.num_ops = 1;
  augmenting.rand_augment.num_magnitude_bins = 31;
  augmenting.rand_augment.magnitude = 0;  // of no effect, but for three operations
  std::vector<float> pixels = {-3.0F, 0.5F, 1.5F, 300.0F, 2.49F, 2.51F, 254.5F, 255.5F, 7.0F, 7.0F, 7.0F, 7.0F};
  const std::vector<float> bytes = {0, 0, 2, 255, 2, 3, 254, 255, 7, 7, 7, 7};
  std::vector<std::byte> scratch(augmenting_scratch_bytes(augmenting));
  for (std::int64_t row = 0;; ++row) {  // until the draw is one of no effect
    ASSERT_LT(row, 100);
    std::vector<float> values = pixels;
    augment_picture(values.data(), augmenting, 1, 0, row, {scratch.data(), scratch.size()});
    bool is_equal = true;
    for (std::size_t i = 0; i < values.size(); ++i) is_equal = is_equal && values[i] == bytes[i] / 255.0F;
    if (is_equal) break;
  }
}

using Pictures = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>>;  // by epoch and row

LoaderSettings changing_settings(const Manifest& manifest) {
  LoaderSettings settings = emoji_settings(manifest);
  settings.random_crops = {Augment::kCropFlip, {0.08, 1.0}, {0.75, 4.0 / 3.0}};
  settings.rand_augment = {2, 9, 31};
  settings.color_jitter = {0.4, 0.4, 0.4, 0.1};
  settings.random_erasing = {0.5, {0.02, 0.33}, {0.3, 3.3}};
  return settings;
}

Pictures pictures_of(const LoaderSettings& settings) {
  Pictures pictures;
  test::for_batches(settings, kEpochs, [&](const Batch& batch) {
    const test::FilledBatch filled(batch, settings.fields);
    const std::int64_t pixels = 3 * settings.media.image_side * settings.media.image_side;
    for (std::int64_t b = 0; b < batch.counts.samples(); ++b)
      pictures[{batch.epoch, batch.rows[b]}].assign(filled.pixels + b * pixels, filled.pixels + (b + 1) * pixels);
  });
  return pictures;
}

Manifest emoji() { return Manifest::load(test::emoji_folder() + "/test.jsonl", ManifestColumns()); }

LoaderSettings crop_settings(const Manifest& manifest) {
  LoaderSettings settings = emoji_settings(manifest);
  settings.random_crops = changing_settings(manifest).random_crops;
  return settings;
}

void expect_no_dependence_on_batch_rank_or_workers(LoaderSettings settings, const Manifest& manifest) {
  settings.workers = 0;
  const Pictures expected = pictures_of(settings);
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kEpochs * manifest.rows()));
  for (const auto& [batch, ranks, workers] : {std::array<std::int64_t, 3>{7, 1, 3}, {4, 2, 1}, {1, 3, 2}}) {
    settings.streams[0].batch_per_rank = batch;
    settings.streams[0].world_size = ranks;
    settings.workers = workers;
    EXPECT_TRUE(pictures_of(settings) == expected) << batch << " " << ranks << " " << workers;
  }
}

TEST(RandomCrops, DoNotDependOnBatchRankOrWorkers) {
  const Manifest manifest = emoji();
  expect_no_dependence_on_batch_rank_or_workers(crop_settings(manifest), manifest);
}

TEST(RandomCrops, AreOthersInEachEpochAndForEachSeed) {
  const Manifest manifest = emoji();
  LoaderSettings settings = crop_settings(manifest);
  const Pictures first = pictures_of(settings);
  settings.seed += 1;
  const Pictures second = pictures_of(settings);
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    EXPECT_NE(first.at({0, row}), first.at({1, row})) << row;
    EXPECT_NE(first.at({0, row}), second.at({0, row})) << row;
  }
}

TEST(RandomCrops, AreNotOfAnEvaluation) {
  const Manifest manifest = emoji();
  LoaderSettings settings = crop_settings(manifest);
  settings.streams[0].shuffled = false;
  const Pictures crops = pictures_of(settings);
  settings.random_crops = {};
  EXPECT_TRUE(pictures_of(settings) == crops);
  settings.media.centre_crop_ratio = 0.875;
  EXPECT_FALSE(pictures_of(settings) == crops);
}

TEST(Augmenting, DoesNotDependOnBatchRankOrWorkers) {
  const Manifest manifest = emoji();
  LoaderSettings settings = changing_settings(manifest);
  expect_no_dependence_on_batch_rank_or_workers(settings, manifest);
  const Pictures pictures = pictures_of(settings);
  settings.seed += 1;
  EXPECT_NE(pictures_of(settings), pictures);
}

// A picture without changes, as raw values, is what the changes begin with.
TEST(Augmenting, ChangesThePicturesThatTheEngineHasCropped) {
  const Manifest manifest = emoji();
  LoaderSettings settings = changing_settings(manifest);
  const Pictures found = pictures_of(settings);
  LoaderSettings plain = settings;
  plain.rand_augment = {};
  plain.color_jitter = {};
  plain.random_erasing = {};
  std::fill_n(plain.media.mean, 3, 0.0);
  std::fill_n(plain.media.std, 3, 1.0 / 255.0);
  Augmenting augmenting{settings.rand_augment,    settings.color_jitter, settings.random_erasing, {}, {},
                        settings.media.image_side};
  std::copy(settings.media.mean, settings.media.mean + 3, augmenting.mean);
  std::copy(settings.media.std, settings.media.std + 3, augmenting.std);
  std::vector<std::byte> scratch(augmenting_scratch_bytes(augmenting));
  std::size_t equal = 0;
  for (auto& [place, pixels] : pictures_of(plain)) {
    std::vector<float> changed = pixels;
    augment_picture(changed.data(), augmenting, settings.seed, place.first, place.second,
                    {scratch.data(), scratch.size()});
    equal += changed == found.at(place) ? 1 : 0;
  }
  EXPECT_EQ(equal, found.size());
}

TEST(Augmenting, LeavesEvaluationsAlone) {
  const Manifest manifest = emoji();
  LoaderSettings settings = changing_settings(manifest), plain = emoji_settings(manifest);
  settings.streams[0].shuffled = plain.streams[0].shuffled = false;
  EXPECT_EQ(pictures_of(settings), pictures_of(plain));
  EXPECT_EQ(plan_loader(settings).total_bytes(), plan_loader(plain).total_bytes());
}

TEST(Augmenting, AllocatesNothingOnceTheLoaderIsMade) {
  const Manifest manifest = emoji();
  for (const std::int64_t workers : {0, 2}) {
    LoaderSettings settings = changing_settings(manifest);
    settings.workers = workers;
    LoaderRun run(settings);
    const std::int64_t before = test::allocations();
    run.stream().start(0, run.stream().batches_per_epoch());
    const Batch* batch = nullptr;
    while (run.stream().next(&batch).ok()) run.stream().release();
    run.loader().close();
    EXPECT_EQ(test::allocations() - before, 0) << workers;
  }
}

TEST(Augmenting, EachWorkerHasAPlannedPictureAndItsCopy) {
  const Manifest manifest = emoji();
  LoaderSettings settings = emoji_settings(manifest);
  settings.workers = 3;
  const std::size_t plain = plan_loader(settings).total_bytes();
  settings.random_erasing = {0.5, {0.02, 0.33}, {0.3, 3.3}};
  EXPECT_EQ(plan_loader(settings).total_bytes(), plain) << "needs none";
  settings.color_jitter.hue = 0.1;
  const std::size_t picture = static_cast<std::size_t>(3 * settings.media.image_side * settings.media.image_side);
  EXPECT_EQ(plan_loader(settings).total_bytes(), plain + 3 * 2 * ((picture + 63) / 64 * 64));
}

}  // namespace
}  // namespace bascule::test_augmenting
