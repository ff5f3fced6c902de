// SPDX-License-Identifier: Apache-2.0
// Processor files against Transformers: the very floats, or a refusal that names the key. The cases are made by
// tools/make_processor_cases.py.
#include "src/pictures/preprocessor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/pictures/picture_decoder.h"
#include "tests/support/sha256.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;

constexpr char kData[] = BASCULE_TEST_DATA "/";
constexpr char kImageProcessor[] = "BridgeTowerImageProcessor", kSquareProcessor[] = "ViTImageProcessor",
               kCroppingProcessor[] = "DeiTImageProcessor";

// The digest of the pixels; empty where the file is refused, and why.
std::string digest_of(const std::string& folder, const std::string& picture, std::int64_t side, std::string* refusal,
                      PictureFit fit = PictureFit::kShorterSide) {
  try {
    const char* const name = fit == PictureFit::kShorterSide ? kImageProcessor
                             : fit == PictureFit::kStretch   ? kSquareProcessor
                                                             : kCroppingProcessor;
    PictureDecoder decoder(media_settings_of(folder, Preprocessing::kProcessor, side, name, fit));
    std::vector<float> pixels(static_cast<std::size_t>(3 * side * side));
    *refusal = decoder.decode(picture, pixels.data(), nullptr);
    if (!refusal->empty()) return "";
    return test::sha256_hex(pixels.data(), pixels.size() * sizeof(float));
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 3);
    *refusal = error.problem();
  }
  return "";
}

void expect_floats_or_key(const std::string& file, PictureFit fit, int least_accepted, int least_refused) {
  const Json document = read_json_file(std::string(kData) + "images/" + file);
  int accepted = 0, refused = 0;
  for (const Json& made : document["cases"]) {
    SCOPED_TRACE(json_text(made["config"]));
    const TemporaryFolder folder;
    folder.write(made["file"].string(), json_text(made["config"]));
    std::string refusal;
    const std::string digest =
        digest_of(folder.path(), kData + made["picture"].string(), made["side"].integer(), &refusal, fit);
    if (!digest.empty()) {
      EXPECT_EQ(Json(digest), made["sha256"]);
      ++accepted;
      continue;
    }
    if (refusal.find("too elongated") != std::string::npos) {  // at these sizes, for Transformers too
      EXPECT_TRUE(made["sha256"].is_null());
      continue;
    }
    bool is_named = false;
    for (const std::string& key : get_strings(made, "named", "processors.json"))
      is_named = is_named || refusal.compare(0, key.size(), key) == 0;
    EXPECT_TRUE(is_named) << refusal;
    ++refused;
  }
  EXPECT_GE(accepted, least_accepted);
  EXPECT_GE(refused, least_refused);
}

TEST(Processor, GivesTheVeryFloatsOfTransformersOrNamesTheKey) {
  expect_floats_or_key("processors.json", PictureFit::kShorterSide, 50, 30);
}
TEST(Processor, OfSquaresGivesTheVeryFloatsOfTransformersOrNamesTheKey) {
  expect_floats_or_key("square_processors.json", PictureFit::kStretch, 50, 20);
}
TEST(Processor, OfCroppedSquaresGivesTheVeryFloatsOfTransformersOrNamesTheKey) {
  expect_floats_or_key("cropped_processors.json", PictureFit::kStretchAndCrop, 14, 8);
}

TEST(Processor, TheFileThatIsWrittenWhereThereIsNoneSaysWhatIsDone) {
  const TemporaryFolder silent, told;
  EXPECT_EQ(processor_file_of(silent.path()), "");
  const std::string text = default_processor_text(64, kImageProcessor);
  for (const char* key : {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_pad"})
    EXPECT_TRUE(parse_json(text, "").contains(key)) << key << " is not left to the defaults of who reads it";
  told.write("preprocessor_config.json", text);
  EXPECT_NE(processor_file_of(told.path()), "");
  std::string refusal;
  const std::string picture = std::string(kData) + "images/png/size_150x100.png";
  const std::string digest = digest_of(silent.path(), picture, 64, &refusal);
  EXPECT_FALSE(digest.empty()) << refusal;
  EXPECT_EQ(digest_of(told.path(), picture, 64, &refusal), digest) << refusal;
}

// Transformers' divisor of 32 would leave nothing of a smaller picture.
TEST(Processor, TheFileThatIsWrittenForSmallPicturesCanBeRead) {
  for (const std::int64_t side : {1, 18, 31, 32, 288}) {
    const TemporaryFolder silent, told;
    told.write("preprocessor_config.json", default_processor_text(side, kImageProcessor));
    const std::int64_t divisor =
        read_picture_rules(told.path(), Preprocessing::kProcessor, side, kImageProcessor, PictureFit::kShorterSide)
            .processor.size_divisor;
    EXPECT_LE(divisor, side);
    EXPECT_EQ(
        read_picture_rules(silent.path(), Preprocessing::kProcessor, side, kImageProcessor, PictureFit::kShorterSide)
            .processor.size_divisor,
        divisor);
  }
}

// A processor_config.json without an image processor inside is that of older versions, and says nothing about pictures.
TEST(Processor, TheFileThatCountsIsTheOneThatTransformersReads) {
  const TemporaryFolder folder;
  const auto divisor = [&] {
    return read_picture_rules(folder.path(), Preprocessing::kProcessor, 64, kImageProcessor, PictureFit::kShorterSide)
        .processor.size_divisor;
  };
  folder.write("processor_config.json", R"({"processor_class": "BridgeTowerProcessor", "size_divisor": 8})");
  EXPECT_EQ(processor_file_of(folder.path()), "");
  EXPECT_EQ(divisor(), 32);
  folder.write("preprocessor_config.json", R"({"crop_size": {"shortest_edge": 64}, "size_divisor": 4})");
  EXPECT_EQ(divisor(), 4);
  folder.write("processor_config.json",
               R"({"image_processor": {"crop_size": {"shortest_edge": 64}, "size_divisor": 2}})");
  EXPECT_EQ(divisor(), 2);
}

// As older files have it.
TEST(Processor, OfSquaresTakesASizeOfOneNumberForBothSides) {
  const TemporaryFolder folder;
  folder.write("preprocessor_config.json", R"({"size": 64})");
  EXPECT_TRUE(read_picture_rules(folder.path(), Preprocessing::kProcessor, 64, kSquareProcessor, PictureFit::kStretch)
                  .processor.makes_squares);
  EXPECT_THROW(
      read_picture_rules(folder.path(), Preprocessing::kProcessor, 224, kSquareProcessor, PictureFit::kStretch), Error);
}

// Transformers takes a number for the shorter side then.
TEST(Processor, OfSquaresTakesNoNumberThatIsTheShorterSide) {
  const TemporaryFolder folder;
  folder.write("preprocessor_config.json", R"({"size": 64, "default_to_square": false})");
  EXPECT_THROW(read_picture_rules(folder.path(), Preprocessing::kProcessor, 64, kSquareProcessor, PictureFit::kStretch),
               Error);
  EXPECT_FALSE(makes_squares(folder.path(), 64, kSquareProcessor, PictureFit::kStretch));
}

TEST(Processor, ThatCropsMoreThanItHasMakesNoSquares) {
  const TemporaryFolder folder;
  const auto makes_squares_of = [&](const char* size) {
    folder.write("preprocessor_config.json",
                 std::string(R"({"do_center_crop": true, "crop_size": 48, "size": )") + size + R"(, "resample": 3})");
    return makes_squares(folder.path(), 48, kSquareProcessor, PictureFit::kStretchAndCrop);
  };
  EXPECT_TRUE(makes_squares_of("54"));
  EXPECT_FALSE(makes_squares_of("40"));
}

// The recipe has its own pixels: of the file, mean and std alone count.
TEST(Processor, TrainingReadsMeanAndStdAlone) {
  const TemporaryFolder folder;
  folder.write("preprocessor_config.json", R"({"resample": 0, "do_resize": false, "image_mean": 0.25})");
  const PictureRules rules =
      read_picture_rules(folder.path(), Preprocessing::kTraining, 64, kImageProcessor, PictureFit::kShorterSide);
  EXPECT_EQ(rules.mean[2], 0.25);
  EXPECT_TRUE(rules.processor.does_resize);
  folder.write("preprocessor_config.json", R"({"image_std": [0.5, 0.0, 0.5]})");
  EXPECT_THROW(
      read_picture_rules(folder.path(), Preprocessing::kTraining, 64, kImageProcessor, PictureFit::kShorterSide),
      Error);
}

}  // namespace
}  // namespace bascule
