// SPDX-License-Identifier: Apache-2.0
// Random crops, flips and centre crops against tools/make_crop_goldens.py, which computes them apart in float64.
#include "firmware_shims/codec/random_crop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "src/loader/media.h"
#include "tests/firmware_shims/engine_on_test.h"

namespace bascule::test::test_random_crop {
namespace {

constexpr double kTolerance = 2e-5;  // float32 sums in another order
constexpr char kImages[] = BASCULE_TEST_DATA "/images/";

const Json& goldens() {
  static const Json document = read_json_file(std::string(kImages) + "random_crops.json");
  return document;
}

void make_random(media_engine_job* job, NumberRange scale, NumberRange ratio, std::uint64_t seed, std::int64_t epoch,
                 std::int64_t row) {
  add_random_crop(job, {Augment::kCropFlip, scale, ratio}, seed, epoch, row);
}

TEST(RandomCrop, HasTheBoxAndTheFlipOfTheDefinition) {
  int checked = 0;
  for (const Json& crop : goldens()["crops"]) {
    media_engine_job job = {};
    make_random(&job, {crop[5].number(), crop[6].number()}, {crop[7].number(), crop[8].number()},
                static_cast<std::uint64_t>(crop[0].integer()), crop[1].integer(), crop[2].integer());
    const codec::CropBox box = codec::random_crop(job, crop[3].integer(), crop[4].integer());
    const std::vector<std::int64_t> found = {box.left, box.top, box.width, box.height, codec::random_flip(job) ? 1 : 0};
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], crop[9 + i].integer()) << json_text(crop) << " at " << i;
    ++checked;
  }
  EXPECT_EQ(checked, 1000);
}

TEST(RandomCrop, AndCentreCropsHaveThePixelsOfTheDefinition) {
  EngineOnTest engine;
  const TensorSource truth = open_safetensors(std::string(kImages) + "random_crops.safetensors");
  std::size_t number = 0;
  for (const Json& picture : goldens()["pictures"]) {
    const StoredTensor* const tensor = truth.find(std::to_string(number++));
    ASSERT_NE(tensor, nullptr);
    const std::uint32_t side = static_cast<std::uint32_t>(tensor->shape.back());
    std::vector<float> expected(std::size_t{3} * side * side);
    truth.read_float32(expected.data(), *tensor, 0, static_cast<std::int64_t>(expected.size()));
    const Bytes encoded = read_bytes(kImages + picture["file"].string());
    Request request(encoded, MEDIA_ENGINE_TRAINING, side, false);
    const bool is_bilinear = picture["interpolation"] == "bilinear";
    request.job.interpolation = is_bilinear ? MEDIA_ENGINE_BILINEAR : MEDIA_ENGINE_BICUBIC;
    if (picture.contains("shortest")) {
      request.job.shortest_edge = static_cast<std::uint32_t>(picture["shortest"].integer());
    } else {
      const DataSettings usual;
      make_random(&request.job, usual.random_resized_crop_scale, usual.random_resized_crop_ratio, 42,
                  picture["epoch"].integer(), picture["row"].integer());
    }
    ASSERT_EQ(status_of(run_alone(engine.get(), request)), MEDIA_ENGINE_OK) << json_text(picture);
    double largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i]) - static_cast<double>(request.pixels[i])));
    }
    EXPECT_LE(largest, kTolerance) << json_text(picture);
  }
  EXPECT_GT(number, 30u);
}

// A crop of a picture that the decoder halves is of the halved picture: nearly the same.
TEST(RandomCrop, IsNearlyTheSameWhereTheDecoderScales) {
  media_engine_config config = media_engine_default_config(media_engine_builtin());
  EngineOnTest exact(config);
  config.scale_in_decoder = 1;
  EngineOnTest scaling(config);
  const Bytes encoded = read_bytes(std::string(kImages) + "jpeg/photo_1411_retina.jpg");
  for (std::int64_t row = 0; row < 8; ++row) {
    Request whole(encoded, MEDIA_ENGINE_TRAINING, 64, true), fast(encoded, MEDIA_ENGINE_TRAINING, 64, true);
    for (Request* const request : {&whole, &fast}) make_random(&request->job, {0.3, 1.0}, {0.75, 1.34}, 1, 0, row);
    ASSERT_EQ(status_of(run_alone(exact.get(), whole)), MEDIA_ENGINE_OK);
    ASSERT_EQ(status_of(run_alone(scaling.get(), fast)), MEDIA_ENGINE_OK);
    double sum = 0.0;
    for (std::size_t i = 0; i < whole.pixels.size(); ++i)
      sum += static_cast<double>(std::abs(whole.pixels[i] - fast.pixels[i]));
    EXPECT_GT(sum, 0.0);
    EXPECT_LT(sum / static_cast<double>(whole.pixels.size()), 8.0) << row;  // of 255
  }
}

}  // namespace
}  // namespace bascule::test::test_random_crop
