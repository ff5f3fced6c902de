// SPDX-License-Identifier: Apache-2.0
// PNGs of every kind: the pixels that Pillow gives, the processor's very bytes, damage refused, memory bounded. The
// files and what is expected of them are made by tools/make_png_pictures.py.
#include "firmware_shims/codec/png.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/firmware_shims/reader_on_test.h"
#include "tests/support/reference_dir.h"
#include "tests/support/sha256.h"

namespace bascule::codec::test_png {
namespace {

using test::Bytes;
using test::EngineOnTest;
using test::Request;
using test::Rows;
using test::run_alone;
using test::status_of;
using Reader = test::ReaderOnTest<PngReader>;

constexpr std::uint32_t kSide = 64;

const std::string& folder() {
  static const std::string path = BASCULE_TEST_DATA "/images/png/";
  return path;
}

const Json& expected_files() {
  static const Json document = read_json_file(folder() + "expected.json");
  return document["files"];
}

Bytes picture(const std::string& name) { return test::read_bytes(folder() + name); }

TEST(Png, HasThePixelsThatTheReferenceGives) {
  Reader reader;
  int checked = 0;
  for (const auto& [name, facts] : expected_files().items()) {
    if (facts["verdict"] != "accept") continue;
    SCOPED_TRACE(name);
    Rows rows;
    ASSERT_TRUE(reader.read(picture(name), &rows).ok());
    EXPECT_EQ(reader.get().width(), facts["size"][0]);
    EXPECT_EQ(reader.get().height(), facts["size"][1]);
    ASSERT_EQ(reader.get().orientation(), facts["orientation"]);
    const Bytes rgb = test::upright_rgb(rows, reader.get().orientation());
    EXPECT_EQ(test::sha256_hex(rgb.data(), rgb.size()), facts["rgb_sha256"]);
    ++checked;
  }
  EXPECT_GE(checked, 60);
}

// As Pillow: an eXIf chunk counts, whichever comes first.
TEST(Png, TheChunkOfExifCountsBesideATextWithAnotherOrientation) {
  const auto exif = [](std::uint8_t orientation) {
    return Bytes{'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0};
  };
  const Bytes chunk = exif(6), text = exif(3);
  OrientationFinder first, last, alone;
  EXPECT_TRUE(first.see_exif_chunk(chunk.data(), chunk.size()));
  first.see_raw_exif(text.data(), text.size());
  EXPECT_EQ(first.orientation(), 6u);
  last.see_raw_exif(text.data(), text.size());
  EXPECT_TRUE(last.see_exif_chunk(chunk.data(), chunk.size()));
  EXPECT_EQ(last.orientation(), 6u);
  alone.see_raw_exif(text.data(), text.size());
  EXPECT_EQ(alone.orientation(), 3u);
}

TEST(Png, ProcessorGivesTheVeryBytesOfTheReference) {
  EngineOnTest engine;
  for (const auto& [name, facts] : expected_files().items()) {
    if (facts["verdict"] != "accept") continue;
    SCOPED_TRACE(name);
    const Bytes encoded = picture(name);
    const Request request(encoded, MEDIA_ENGINE_PROCESSOR, kSide, true);
    const media_engine_completion done = run_alone(engine.get(), request);
    ASSERT_EQ(status_of(done), MEDIA_ENGINE_OK) << media_engine_picture_text(status_of(done), done.detail);
    EXPECT_EQ(done.orientation, facts["orientation"]);
    const std::int64_t stored[2] = {facts["size"][0].integer(), facts["size"][1].integer()};
    const bool swaps = done.orientation >= 5;
    EXPECT_EQ(done.width, stored[swaps ? 1 : 0]);
    EXPECT_EQ(done.height, stored[swaps ? 0 : 1]);
    Bytes bytes(request.pixels.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(request.pixels[i % 3 * kSide * kSide + i / 3]);
    EXPECT_EQ(test::sha256_hex(bytes.data(), bytes.size()), facts["processor_sha256"]);
  }
}

TEST(Png, AWindowHasThePixelsOfTheWholePicture) {
  Reader reader;
  for (const char* const name :
       {"rgb_8.png", "gray_16_adam7.png", "palette_4.png", "rgba_16_adam7.png", "gray_1.png"}) {
    Rows whole;
    ASSERT_TRUE(reader.read(picture(name), &whole).ok());
    for (const Window& window : {Window{3, 11, 2, 13}, Window{0, 1, 16, 17}, Window{22, 23, 0, 17}}) {
      Rows part;
      ASSERT_TRUE(reader.read(picture(name), &part, &window).ok());
      ASSERT_EQ(part.rows.size(), static_cast<std::size_t>(window.y_end - window.y_begin));
      for (std::size_t r = 0; r < part.rows.size(); ++r) {
        const Bytes& row = whole.rows[r + static_cast<std::size_t>(window.y_begin)];
        EXPECT_EQ(part.rows[r], Bytes(row.begin() + 4 * window.x_begin, row.begin() + 4 * window.x_end)) << name;
      }
    }
  }
}

TEST(Png, DamageIsRefusedInBothPreparations) {
  EngineOnTest engine;
  int refused = 0;
  for (const auto& [name, facts] : expected_files().items()) {
    const Bytes encoded = picture(name);
    for (const media_engine_preparation preparation : {MEDIA_ENGINE_PROCESSOR, MEDIA_ENGINE_TRAINING}) {
      const media_engine_completion done = run_alone(engine.get(), Request(encoded, preparation, 288, false));
      const bool is_bad = media_engine_is_bad_picture(status_of(done)) != 0;
      // Small ones only: 40 x 2 is too elongated at 64 and at 288.
      EXPECT_EQ(is_bad, facts["verdict"] == "refuse") << name << ": " << media_engine_status_text(status_of(done));
      if (!is_bad) continue;
      EXPECT_NE(done.detail & MEDIA_ENGINE_DETAIL_PNG, 0u) << name;
      ++refused;
    }
  }
  EXPECT_GT(refused, 40);
}

TEST(Png, EachKindOfDamageHasItsWord) {
  EngineOnTest engine;
  const auto status_with = [&](const char* name) {
    const Bytes encoded = picture(name);
    return status_of(run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false)));
  };
  EXPECT_EQ(status_with("bad_only_signature.png"), MEDIA_ENGINE_PICTURE_TRUNCATED);
  EXPECT_EQ(status_with("bad_cut_in_pixels.png"), MEDIA_ENGINE_PICTURE_TRUNCATED);
  EXPECT_EQ(status_with("bad_cut_before_end.png"), MEDIA_ENGINE_PICTURE_TRUNCATED);
  EXPECT_EQ(status_with("bad_checksum_of_header.png"), MEDIA_ENGINE_PICTURE_BROKEN);
  EXPECT_EQ(status_with("bad_exif.png"), MEDIA_ENGINE_PICTURE_BROKEN);
  EXPECT_EQ(status_with("bad_checksum_of_pixels.png"), MEDIA_ENGINE_PICTURE_DAMAGED);
  EXPECT_EQ(status_with("bad_sum_of_rows.png"), MEDIA_ENGINE_PICTURE_DAMAGED);
  EXPECT_EQ(status_with("bad_bomb_65500.png"), MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS);
  const Bytes elongated = picture("bad_elongated_40x2.png");
  const media_engine_completion done = run_alone(engine.get(), Request(elongated, MEDIA_ENGINE_TRAINING, kSide, false));
  EXPECT_EQ(status_of(done), MEDIA_ENGINE_PICTURE_TOO_ELONGATED);
  EXPECT_EQ(done.detail, 15u | MEDIA_ENGINE_DETAIL_PNG);
  EXPECT_STREQ(media_engine_picture_text(MEDIA_ENGINE_PICTURE_TRUNCATED, MEDIA_ENGINE_DETAIL_PNG),
               "the PNG file is truncated");
}

// Wherever libpng or the walk over the chunks runs out of memory, it says so and nothing is written beyond.
TEST(Png, WorksInAnyMemoryOrSaysThatItIsTooLittle) {
  for (const char* const name : {"rgb_16_adam7.png", "raw_profile_packed_8.png", "xmp_packed_behind_7.png"}) {
    const Bytes encoded = picture(name);
    bool fitted = false;
    for (std::size_t bytes = 0; bytes <= 160'000; bytes += 320) {
      Reader reader(bytes);
      Rows rows;
      const Verdict verdict = reader.read(encoded, &rows);
      EXPECT_TRUE(verdict.ok() || verdict.status == MEDIA_ENGINE_PICTURE_TOO_LARGE) << name << " " << bytes;
      EXPECT_TRUE(verdict.ok() || !fitted) << name << ": more memory does not help: " << bytes;
      fitted = verdict.ok();
    }
    EXPECT_TRUE(fitted) << name;
  }
}

TEST(Png, LimitsRefuseAtTheHeader) {
  const Bytes encoded = picture("size_150x100.png");
  for (const std::uint32_t most : {15'000u, 14'999u}) {
    media_engine_config config = media_engine_default_config(media_engine_builtin());
    config.max_pixels = most;
    EngineOnTest engine(config);
    EXPECT_EQ(status_of(run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false))),
              most == 15'000 ? MEDIA_ENGINE_OK : MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS);
  }
}

struct Foreign {
  std::string bytes;
  const char* name;
};

TEST(Formats, WhatIsNotDecodedIsNamed) {
  using namespace std::string_literals;
  const Foreign files[] = {{"GIF89a\1\0\1\0"s, "is GIF"},
                           {"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\2\0\0\0"s, "is an animated WebP"},
                           {"BM\x46\0\0\0\0\0"s, "is BMP"},
                           {"II*\0\x08\0\0\0"s, "is TIFF"},
                           {"MM\0*\0\0\0\x08"s, "is TIFF"},
                           {"\0\0\0\x20"s + "ftypavif", "is AVIF"},
                           {"\0\0\0\x18"s + "ftypheic", "is HEIC"},
                           {"\0\0\0\x18"s + "ftypisom", "is a video"},
                           {"\xFF\x0A\1\2"s, "is JPEG XL"},
                           {"\0\0\0\x0CjP  \r\n\x87\n"s, "is JPEG 2000"},
                           {"8BPS\0\1"s, "is a Photoshop document"},
                           {"<?xml version=\"1.0\"?>\n<svg xmlns=\"x\">"s, "is SVG"},
                           {"<?xml version=\"1.0\"?><Error><Code>AccessDenied"s, "is XML"},
                           {"\n <!DOCTYPE HTML><html><title>404"s, "is HTML"},
                           {"%PDF-1.7\n"s, "is PDF"},
                           {"\x1F\x8B\x08\0"s, "is compressed with gzip"},
                           {"PK\3\4\x14\0"s, "is a ZIP archive"},
                           {"P6\n2 2\n255\n"s, "is Netpbm"},
                           {"version https://git-lfs.github.com/spec/v1\n"s, "is text"},
                           {"\1\2\3\4"s, "is not JPEG, PNG or WebP"}};
  EngineOnTest engine;
  for (const Foreign& file : files) {
    const Bytes encoded(file.bytes.begin(), file.bytes.end());
    const media_engine_completion done = run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false));
    EXPECT_EQ(status_of(done), MEDIA_ENGINE_PICTURE_OTHER_FORMAT) << file.name;
    const std::string text = media_engine_picture_text(status_of(done), done.detail);
    EXPECT_EQ(text.compare(0, std::strlen(file.name), file.name), 0) << text << ", expected " << file.name;
  }
  const media_engine_completion empty = run_alone(engine.get(), Request(Bytes(), MEDIA_ENGINE_TRAINING, kSide, false));
  EXPECT_EQ(status_of(empty), MEDIA_ENGINE_PICTURE_EMPTY);
}

}  // namespace
}  // namespace bascule::codec::test_png
