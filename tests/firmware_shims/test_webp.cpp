// SPDX-License-Identifier: Apache-2.0
// WebPs, lossy and lossless, with and without alpha: the pixels that Pillow gives, the processor's very bytes, damage
// refused, memory bounded. The files and what is expected of them are made by tools/make_webp_pictures.py.
#include "firmware_shims/codec/webp.h"

#include <gtest/gtest.h>

#include <string>

#include "src/json/json.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/firmware_shims/reader_on_test.h"
#include "tests/support/reference_dir.h"
#include "tests/support/sha256.h"

namespace bascule::codec::test_webp {
namespace {

using test::Bytes;
using test::EngineOnTest;
using test::Request;
using test::Rows;
using test::run_alone;
using test::status_of;
using Reader = test::ReaderOnTest<WebpReader>;

constexpr std::uint32_t kSide = 64;

const std::string& folder() {
  static const std::string path = BASCULE_TEST_DATA "/images/webp/";
  return path;
}

const Json& expected_files() {
  static const Json document = read_json_file(folder() + "expected.json");
  return document["files"];
}

Bytes picture(const std::string& name) { return test::read_bytes(folder() + name); }

TEST(Webp, HasThePixelsThatTheReferenceGives) {
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
  EXPECT_GE(checked, 35);
}

TEST(Webp, ProcessorGivesTheVeryBytesOfTheReference) {
  EngineOnTest engine;
  for (const auto& [name, facts] : expected_files().items()) {
    if (facts["verdict"] != "accept") continue;
    SCOPED_TRACE(name);
    const Bytes encoded = picture(name);
    const Request request(encoded, MEDIA_ENGINE_PROCESSOR, kSide, true);
    const media_engine_completion done = run_alone(engine.get(), request);
    ASSERT_EQ(status_of(done), MEDIA_ENGINE_OK) << media_engine_picture_text(status_of(done), done.detail);
    EXPECT_EQ(done.orientation, facts["orientation"]);
    Bytes bytes(request.pixels.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(request.pixels[i % 3 * kSide * kSide + i / 3]);
    EXPECT_EQ(test::sha256_hex(bytes.data(), bytes.size()), facts["processor_sha256"]);
  }
}

TEST(Webp, AWindowHasThePixelsOfTheWholePicture) {
  Reader reader;
  for (const char* const name : {"lossy_40.webp", "lossless.webp", "lossy_alpha_30.webp"}) {
    Rows whole;
    ASSERT_TRUE(reader.read(picture(name), &whole).ok());
    for (const Window& window : {Window{3, 11, 2, 13}, Window{0, 1, 22, 23}, Window{36, 37, 0, 23}}) {
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

TEST(Webp, EachKindOfDamageHasItsWord) {
  EngineOnTest engine;
  const auto text_of = [&](const char* name) -> std::string {
    const Bytes encoded = picture(name);
    const media_engine_completion done = run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false));
    return media_engine_picture_text(status_of(done), done.detail);
  };
  const std::string truncated = "the WebP file is truncated", broken = "a header of the WebP file is broken",
                    damaged = media_engine_status_text(MEDIA_ENGINE_PICTURE_DAMAGED);
  EXPECT_EQ(text_of("bad_only_signature.webp"), truncated);
  EXPECT_EQ(text_of("bad_cut_in_header.webp"), truncated);
  EXPECT_EQ(text_of("bad_cut_in_pixels.webp"), truncated);
  EXPECT_EQ(text_of("bad_cut_in_end.webp"), truncated);
  EXPECT_EQ(text_of("bad_cut_lossless.webp"), truncated);
  EXPECT_EQ(text_of("bad_few_pixels.webp"), truncated);
  EXPECT_EQ(text_of("bad_few_pixels_lossless.webp"), damaged);
  EXPECT_EQ(text_of("bad_start_code.webp"), broken);
  EXPECT_EQ(text_of("bad_lossless_mark.webp"), broken);
  EXPECT_EQ(text_of("bad_kind.webp"), broken);
  EXPECT_EQ(text_of("bad_exif.webp"), broken);
  EXPECT_EQ(text_of("bad_canvas.webp"), broken);
  EXPECT_EQ(text_of("bad_lossless_codes.webp"), damaged);
  EXPECT_EQ(text_of("bad_alpha.webp"), damaged);
  EXPECT_EQ(text_of("bad_bomb.webp"), "the picture has more pixels than allowed");
  EXPECT_EQ(text_of("bad_elongated_80x4.webp"), "the picture is too elongated");
  EXPECT_EQ(text_of("bad_animated.webp"), "is an animated WebP; convert it to a still picture");
}

// libwebp itself works in the reader's memory: where that holds the pixels alone, it says so, and nothing is written
// beyond.
TEST(Webp, WorksInAnyMemoryOrSaysThatItIsTooLittle) {
  for (const char* const name : {"lossy_40.webp", "lossless_alpha.webp", "lossy_alpha_30.webp"}) {
    const Bytes encoded = picture(name);
    bool fitted = false;
    std::size_t least = 0;
    for (std::size_t bytes = 0; bytes <= 160'000; bytes += 320) {
      Reader reader(bytes);
      Rows rows;
      const Verdict verdict = reader.read(encoded, &rows);
      EXPECT_TRUE(verdict.ok() || verdict.status == MEDIA_ENGINE_PICTURE_TOO_LARGE) << name << " " << bytes;
      EXPECT_TRUE(verdict.ok() || !fitted) << name << ": more memory does not help: " << bytes;
      if (verdict.ok() && !fitted) least = bytes;
      fitted = verdict.ok();
    }
    EXPECT_TRUE(fitted) << name;
    constexpr std::size_t kRows = 37 * 23 * 3 + 8 * (37 * 4 + 128);
    EXPECT_GT(least, kRows + 2000) << name << ": libwebp takes memory from elsewhere";
  }
}

TEST(Webp, LimitsRefuseAtTheHeader) {
  const Bytes encoded = picture("size_rgb_70x40.webp");
  for (const std::uint32_t most : {2'800u, 2'799u}) {
    media_engine_config config = media_engine_default_config(media_engine_builtin());
    config.max_pixels = most;
    EngineOnTest engine(config);
    EXPECT_EQ(status_of(run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false))),
              most == 2'800 ? MEDIA_ENGINE_OK : MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS);
  }
}

}  // namespace
}  // namespace bascule::codec::test_webp
