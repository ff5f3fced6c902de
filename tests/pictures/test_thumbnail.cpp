// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/picture_decoder.h"

#include <gtest/gtest.h>

#include <string>

#include "src/pictures/png_file.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// The left third red, the rest blue, 96 x 48: a square from the middle keeps a quarter of each side away.
TEST(Thumbnail, IsASmallPngCutFromTheMiddle) {
  const TemporaryFolder folder;
  std::vector<std::uint8_t> pixels(96 * 48 * 3);
  for (std::size_t i = 0; i < 96 * 48; ++i) pixels[3 * i + (i % 96 < 32 ? 0 : 2)] = 255;
  const std::string path = folder.path() + "/wide.png";
  write_png(path, {pixels.data(), 96, 48});
  ThumbnailMaker maker;
  const std::vector<std::uint8_t> small = maker.make(path);
  ASSERT_GT(small.size(), 24u);
  EXPECT_LE(small.size(), 8192u);
  EXPECT_EQ(std::string(small.begin() + 1, small.begin() + 4), "PNG");
  EXPECT_EQ(small[19], kThumbnailSide);  // width and height, big endian
  EXPECT_EQ(small[23], kThumbnailSide);
  EXPECT_EQ(maker.make(path), small);
  // Its middle, read back, is blue; so is its right edge, and its left edge red.
  const std::string copy = folder.path() + "/copy.png";
  folder.write("copy.png", std::string(small.begin(), small.end()));
  MediaSettings settings = default_media_settings();
  settings.image_side = kThumbnailSide;
  PictureDecoder decoder(settings, true);
  std::vector<float> read(3 * kThumbnailSide * kThumbnailSide);
  ASSERT_EQ(decoder.decode(copy, read.data(), nullptr), "");
  const std::size_t row = 24 * kThumbnailSide, blue = 2 * kThumbnailSide * kThumbnailSide;
  EXPECT_NEAR(read[row], 255.0f, 1.0f);
  EXPECT_NEAR(read[row + 4], 255.0f, 1.0f);
  EXPECT_NEAR(read[row + 24], 0.0f, 1.0f);
  EXPECT_NEAR(read[blue + row + 24], 255.0f, 1.0f);
  EXPECT_NEAR(read[blue + row + 47], 255.0f, 1.0f);
}

TEST(Thumbnail, HoldsTheWholePictureWhereItIsSqueezed) {
  const TemporaryFolder folder;
  std::vector<std::uint8_t> pixels(96 * 48 * 3);
  for (std::size_t i = 0; i < 96 * 48; ++i) pixels[3 * i + (i % 96 < 8 || i % 96 >= 88 ? 0 : 2)] = 255;  // red ends
  const std::string path = folder.path() + "/wide.png";
  write_png(path, {pixels.data(), 96, 48});
  const std::vector<std::uint8_t> small = ThumbnailMaker(kThumbnailSide, CopyKind::kSqueezed).make(path);
  folder.write("copy.png", std::string(small.begin(), small.end()));
  MediaSettings settings = default_media_settings();
  settings.image_side = kThumbnailSide;
  PictureDecoder decoder(settings, true);
  std::vector<float> read(3 * kThumbnailSide * kThumbnailSide);
  ASSERT_EQ(decoder.decode(folder.path() + "/copy.png", read.data(), nullptr), "");
  for (const std::size_t end : {std::size_t{1}, std::size_t{kThumbnailSide - 2}})
    EXPECT_NEAR(read[24 * kThumbnailSide + end], 255.0f, 2.0f);
  EXPECT_NEAR(read[24 * kThumbnailSide + 24], 0.0f, 2.0f);
}

TEST(PictureDecoder, SaysTheSizeOfAPicture) {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> pixels(96 * 48 * 3);
  const std::string path = folder.path() + "/wide.png";
  write_png(path, {pixels.data(), 96, 48});
  MediaSettings settings = default_media_settings();
  settings.image_side = kThumbnailSide;
  PictureDecoder decoder(settings);
  std::vector<float> read(3 * kThumbnailSide * kThumbnailSide);
  PictureDecoder::Size size;
  ASSERT_EQ(decoder.decode(path, read.data(), &size), "");
  EXPECT_EQ(size.width, 96);
  EXPECT_EQ(size.height, 48);
}

TEST(Thumbnail, WhatIsNoPictureHasNone) {
  const TemporaryFolder folder;
  folder.write("broken.jpg", "no picture at all");
  ThumbnailMaker maker;
  EXPECT_TRUE(maker.make(folder.path() + "/broken.jpg").empty());
  EXPECT_TRUE(maker.make(folder.path() + "/gone.jpg").empty());
}

}  // namespace
}  // namespace bascule::test
