// SPDX-License-Identifier: Apache-2.0
// Whatever the picture: processed or refused within the engine's budget (bytes behind it are watched) and in bounded
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>

#include "tests/firmware_shims/encode_jpeg.h"
#include "tests/firmware_shims/engine_on_test.h"

namespace bascule::test {
namespace {

// Generous: what is refused is refused at its header, in milliseconds; 100 megapixels take about a second.
constexpr double kMostSecondsRefused = 2.0, kMostSecondsDecoded = 60.0;

media_engine_status status_within(const Bytes& encoded, double seconds) {
  EngineOnTest engine;
  const Request request(encoded, MEDIA_ENGINE_TRAINING, 288, false);
  const auto began = std::chrono::steady_clock::now();
  const media_engine_completion done = run_alone(engine.get(), request);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), seconds);
  return status_of(done);
}

// Where a frame header (SOF0 or SOF2) has its height.
std::size_t height_at(const Bytes& bytes) {
  for (std::size_t i = 2; i + 9 < bytes.size(); ++i) {
    if (bytes[i] == 0xFF && (bytes[i + 1] == 0xC0 || bytes[i + 1] == 0xC2)) return i + 5;
  }
  ADD_FAILURE() << "no frame header";
  return 0;
}

TEST(LargePicturesSlow, AHundredMegapixelsInOneScanAreDecodedInTheUsualMemory) {
  EXPECT_EQ(status_within(encode_jpeg(12000, 8400), kMostSecondsDecoded), MEDIA_ENGINE_OK);
}

// Its header alone says what it would take: the scans behind it are those of a small picture.
TEST(LargePictures, AHundredMegapixelsInSeveralScansAreRefusedForWhatTheyWouldTake) {
  JpegKind progressive;
  progressive.progressive = true;
  Bytes bytes = encode_jpeg(64, 64, progressive);
  const std::uint8_t extents[] = {8400 >> 8, 8400 & 0xFF, 12000 >> 8, 12000 & 0xFF};
  std::copy(std::begin(extents), std::end(extents), bytes.begin() + static_cast<std::ptrdiff_t>(height_at(bytes)));
  const media_engine_status status = status_within(bytes, kMostSecondsRefused);
  EXPECT_TRUE(status == MEDIA_ENGINE_PICTURE_TOO_LARGE || status == MEDIA_ENGINE_PICTURE_TOO_MUCH_WORK)
      << media_engine_status_text(status);
}

TEST(LargePictures, ABombIsRefusedForItsDeclaredSize) {
  Bytes bytes = encode_jpeg(64, 64);
  const std::size_t at = height_at(bytes);
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = i % 2 == 0 ? 0xFF : 0xDC;  // 65500 x 65500
  EXPECT_EQ(status_within(bytes, kMostSecondsRefused), MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS);
}

TEST(LargePictures, AsLongAndThinAsAJpegCanBeIsTakenOrRefusedAsTooElongated) {
  for (const auto& [width, height] : {std::pair{65500, 1}, std::pair{1, 65500}}) {
    const media_engine_status status = status_within(encode_jpeg(width, height), kMostSecondsDecoded);
    EXPECT_TRUE(status == MEDIA_ENGINE_OK || status == MEDIA_ENGINE_PICTURE_TOO_ELONGATED)
        << media_engine_status_text(status);
  }
}

// The last scan of a progressive picture, three thousand times.
TEST(LargePictures, ThousandsOfScansAreRefusedBeforeTheFirstIsDecoded) {
  JpegKind progressive;
  progressive.progressive = true;
  Bytes bytes = encode_jpeg(640, 480, progressive);
  std::size_t scan = bytes.size() - 2;
  while (scan > 0 && !(bytes[scan] == 0xFF && bytes[scan + 1] == 0xDA)) --scan;
  const Bytes last(bytes.begin() + static_cast<std::ptrdiff_t>(scan), bytes.end() - 2);
  bytes.resize(bytes.size() - 2);
  for (int i = 0; i < 3000; ++i) bytes.insert(bytes.end(), last.begin(), last.end());
  bytes.insert(bytes.end(), {0xFF, 0xD9});
  EXPECT_EQ(status_within(bytes, kMostSecondsRefused), MEDIA_ENGINE_PICTURE_TOO_MANY_SCANS);
}

}  // namespace
}  // namespace bascule::test
