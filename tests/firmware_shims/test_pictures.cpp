// SPDX-License-Identifier: Apache-2.0
// Every picture of the reference set through the engine: the processor's very bytes, training within float32's reach,
// refusals as agreed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/support/reference_dir.h"
#include "tests/support/sha256.h"

namespace bascule::test {
namespace {

// The maker of training.safetensors allows the same: float32 sums in another order.
constexpr double kTrainingTolerance = 2e-5;

const Json& expected_files() {
  static const Json document = read_json_file(reference_dir() + "/images/expected.json");
  return document["files"];
}

// The reference set was made when PNGs and WebPs were refused; those among its bad files are good.
std::string verdict_of(const Json& facts) {
  const bool is_read = facts.contains("format") && (facts["format"] == "PNG" || facts["format"] == "WEBP");
  return is_read ? "accept" : facts["verdict"].string();
}

Bytes picture(const std::string& name) { return read_bytes(reference_dir() + "/images/jpeg/" + name); }

// Planes of whole numbers 0..255 as rows of RGB bytes.
Bytes interleaved(const std::vector<float>& planes) {
  const std::size_t pixels = planes.size() / 3;
  Bytes bytes(planes.size());
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const float value = planes[c * pixels + i];
      EXPECT_EQ(value, std::floor(value));
      bytes[3 * i + c] = static_cast<std::uint8_t>(value);
    }
  }
  return bytes;
}

TEST(Pictures, ProcessorGivesTheVeryBytesOfTheReference) {
  EngineOnTest engine;
  int checked = 0;
  for (const auto& [name, facts] : expected_files().items()) {
    for (const std::uint32_t side : {64u, 288u}) {
      const std::string key = "s" + std::to_string(side);
      if (verdict_of(facts) != "accept" || !facts.contains(key) || !facts[key].contains("fast_sha256")) continue;
      const Bytes encoded = picture(name);
      const Request request(encoded, MEDIA_ENGINE_PROCESSOR, side, true);
      const media_engine_completion done = run_alone(engine.get(), request);
      ASSERT_EQ(status_of(done), MEDIA_ENGINE_OK) << name << ": " << media_engine_status_text(status_of(done));
      const Bytes bytes = interleaved(request.pixels);
      if (facts.contains("libjpeg_equals_pil") && facts["libjpeg_equals_pil"] == false)
        continue;  // the reference's newer libjpeg smooths otherwise
      EXPECT_EQ(sha256_hex(bytes.data(), bytes.size()), facts[key]["fast_sha256"]) << name << " at " << side;
      ++checked;
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(Pictures, ProcessorNormalisesToTheVeryFloatsOfTheReference) {
  const std::string path = reference_file("images/expected.safetensors");
  if (path.empty()) GTEST_SKIP() << "only in the full reference set";
  const std::string prefix = "f32_64_fast/";
  EngineOnTest engine;
  const TensorSource truth = open_safetensors(path);
  int checked = 0;
  for (const StoredTensor& tensor : truth.tensors()) {
    if (tensor.name.compare(0, prefix.size(), prefix) != 0) continue;
    std::vector<float> expected(std::size_t{3} * 64 * 64);
    truth.read_float32(expected.data(), tensor, 0, static_cast<std::int64_t>(expected.size()));
    const Bytes encoded = picture(tensor.name.substr(prefix.size()));
    const Request request(encoded, MEDIA_ENGINE_PROCESSOR, 64, false);
    ASSERT_EQ(status_of(run_alone(engine.get(), request)), MEDIA_ENGINE_OK) << tensor.name;
    EXPECT_EQ(request.pixels, expected) << tensor.name;
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

TEST(Pictures, TrainingIsWithinFloatReachOfTheReference) {
  EngineOnTest engine;
  const TensorSource truth = open_safetensors(reference_dir() + "/images/training.safetensors");
  for (const StoredTensor& tensor : truth.tensors()) {
    const std::size_t slash = tensor.name.find('/');
    const std::string name = tensor.name.substr(slash + 1);
    const std::uint32_t side = static_cast<std::uint32_t>(std::stoul(tensor.name.substr(1, slash - 1)));
    std::vector<float> expected(std::size_t{3} * side * side);
    truth.read_float32(expected.data(), tensor, 0, static_cast<std::int64_t>(expected.size()));
    const Bytes encoded = picture(name);
    const Request request(encoded, MEDIA_ENGINE_TRAINING, side, false);
    ASSERT_EQ(status_of(run_alone(engine.get(), request)), MEDIA_ENGINE_OK) << name;
    double largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i]) - static_cast<double>(request.pixels[i])));
    }
    EXPECT_LE(largest, kTrainingTolerance) << tensor.name;
  }
}

TEST(Pictures, VerdictsAreAsAgreedInBothPreparations) {
  EngineOnTest engine;
  for (const auto& [name, facts] : expected_files().items()) {
    const Bytes encoded = picture(name);
    for (const media_engine_preparation preparation : {MEDIA_ENGINE_PROCESSOR, MEDIA_ENGINE_TRAINING}) {
      const Request request(encoded, preparation, 288, false);
      const media_engine_completion done = run_alone(engine.get(), request);
      const std::string verdict = verdict_of(facts);
      const std::string said =
          name + ": " + media_engine_status_text(status_of(done)) + ", expected " + facts["why"].string();
      if (verdict == "refuse") {
        EXPECT_EQ(media_engine_is_bad_picture(status_of(done)), 1) << said;
      } else if (verdict == "accept") {
        EXPECT_EQ(status_of(done), MEDIA_ENGINE_OK) << said;
        EXPECT_EQ(done.orientation, facts["orientation"]) << name;
        EXPECT_EQ(done.width, facts["upright"][0]) << name;
        EXPECT_EQ(done.height, facts["upright"][1]) << name;
      }
    }
  }
}

media_engine_config scaling_config() {
  media_engine_config config = media_engine_default_config(media_engine_builtin());
  config.scale_in_decoder = 1;
  return config;
}

// Over the reference set at a side that most of its pictures are more than twice as large as. What it costs is a
// property of the pictures: the bound is the largest mean seen there, rounded up.
TEST(Pictures, ScalingInTheDecoderChangesLargePicturesALittleAndSmallOnesNotAtAll) {
  constexpr std::uint32_t kSide = 64;
  constexpr double kMostOnAverage = 13.0;  // of 255
  EngineOnTest exact, scaling(scaling_config());
  double sum = 0.0, most = 0.0, largest = 0.0;
  int scaled = 0, same = 0;
  for (const auto& [name, facts] : expected_files().items()) {
    if (facts["verdict"] != "accept") continue;  // a PNG cannot be scaled in its decoder
    const Bytes encoded = picture(name);
    const Request whole(encoded, MEDIA_ENGINE_TRAINING, kSide, true), fast(encoded, MEDIA_ENGINE_TRAINING, kSide, true);
    const media_engine_completion done = run_alone(exact.get(), whole), fast_done = run_alone(scaling.get(), fast);
    if (status_of(done) != MEDIA_ENGINE_OK) continue;
    ASSERT_EQ(status_of(fast_done), MEDIA_ENGINE_OK) << name;
    EXPECT_EQ(done.width, fast_done.width) << name;
    if (std::min(done.width, done.height) <= 2 * kSide) {
      EXPECT_EQ(whole.pixels, fast.pixels) << name;
      ++same;
      continue;
    }
    double mean = 0.0;
    for (std::size_t i = 0; i < whole.pixels.size(); ++i) {
      const double difference = std::abs(static_cast<double>(whole.pixels[i]) - static_cast<double>(fast.pixels[i]));
      mean += difference / static_cast<double>(whole.pixels.size());
      largest = std::max(largest, difference);
    }
    EXPECT_LT(mean, kMostOnAverage) << name;
    sum += mean;
    most = std::max(most, mean);
    ++scaled;
  }
  EXPECT_GT(scaled, 20);
  EXPECT_GT(same, 20);
  std::printf("scaled %d pictures: mean difference %.3f of 255, largest mean %.3f, largest pixel %.1f\n", scaled,
              sum / scaled, most, largest);
}

// A picture that a processor does not resize must not come smaller out of the decoder.
TEST(Pictures, ScalingInTheDecoderLeavesAlonePicturesThatAreNotResized) {
  EngineOnTest exact, scaling(scaling_config());
  const Bytes encoded = picture("photo_640x427.jpg");
  Request whole(encoded, MEDIA_ENGINE_PROCESSOR, 64, true), fast(encoded, MEDIA_ENGINE_PROCESSOR, 64, true);
  whole.job.shortest_edge = fast.job.shortest_edge = 0;
  ASSERT_EQ(status_of(run_alone(exact.get(), whole)), MEDIA_ENGINE_OK);
  ASSERT_EQ(status_of(run_alone(scaling.get(), fast)), MEDIA_ENGINE_OK);
  EXPECT_EQ(whole.pixels, fast.pixels);
}

}  // namespace
}  // namespace bascule::test
