// SPDX-License-Identifier: Apache-2.0
// PNGs of every kind, and WebPs, lossy and lossless, with and without alpha: the pixels that Pillow gives, the
// processor's very bytes, damage refused, memory bounded. The files and what is expected of them are made by
// tools/make_png_pictures.py and tools/make_webp_pictures.py.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "firmware_shims/codec/png.h"
#include "firmware_shims/codec/webp.h"
#include "src/json/json.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/firmware_shims/reader_on_test.h"
#include "tests/support/reference_dir.h"
#include "tests/support/sha256.h"

namespace bascule::codec::test_png_and_webp {
namespace {

using test::Bytes;
using test::EngineOnTest;
using test::Request;
using test::Rows;
using test::run_alone;
using test::status_of;
using Names = std::vector<std::string>;

constexpr std::uint32_t kSide = 64;

media_engine_completion done_with(const Bytes& encoded, EngineOnTest& engine) {
  return run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false));
}

struct Png {
  using Reader = test::ReaderOnTest<PngReader>;
  static std::string folder() { return BASCULE_TEST_DATA "/images/png/"; }
  static Names windowed() {
    return {"rgb_8.png", "gray_16_adam7.png", "palette_4.png", "rgba_16_adam7.png", "gray_1.png"};
  }
  static std::vector<Window> windows() { return {{3, 11, 2, 13}, {0, 1, 16, 17}, {22, 23, 0, 17}}; }
  static Names bounded() { return {"rgb_16_adam7.png", "raw_profile_packed_8.png", "xmp_packed_behind_7.png"}; }
  static constexpr char kLargest[] = "size_150x100.png";
  static constexpr std::uint32_t kPixels = 15'000;
  static constexpr int kAccepted = 60;          // files, at least
  static constexpr std::size_t kMoreBytes = 0;  // than this must be needed
};

struct Webp {
  using Reader = test::ReaderOnTest<WebpReader>;
  static std::string folder() { return BASCULE_TEST_DATA "/images/webp/"; }
  static Names windowed() { return {"lossy_40.webp", "lossless.webp", "lossy_alpha_30.webp"}; }
  static std::vector<Window> windows() { return {{3, 11, 2, 13}, {0, 1, 22, 23}, {36, 37, 0, 23}}; }
  static Names bounded() { return {"lossy_40.webp", "lossless_alpha.webp", "lossy_alpha_30.webp"}; }
  static constexpr char kLargest[] = "size_rgb_70x40.webp";
  static constexpr std::uint32_t kPixels = 2'800;
  static constexpr int kAccepted = 35;
  // Rows and pixels: libwebp, too, works in the reader's memory, and takes none from elsewhere.
  static constexpr std::size_t kMoreBytes = 37 * 23 * 3 + 8 * (37 * 4 + 128) + 2000;
};

template <typename Format>
Bytes picture(const std::string& name) {
  return test::read_bytes(Format::folder() + name);
}

template <typename Format>
const Json& expected_files() {
  static const Json document = read_json_file(Format::folder() + "expected.json");
  return document["files"];
}

template <typename Format>
class Pictures : public testing::Test {
 protected:
  // Calls check(name, what is expected of it) for each file that is accepted, and gives their number.
  template <typename Check>
  static int for_accepted(Check check) {
    int checked = 0;
    for (const auto& [name, facts] : expected_files<Format>().items()) {
      if (facts["verdict"] != "accept") continue;
      SCOPED_TRACE(name);
      check(name, facts);
      ++checked;
    }
    return checked;
  }
};
using Formats = testing::Types<Png, Webp>;
struct NameOfFormat {
  template <typename Format>
  static std::string GetName(int) {
    return std::is_same_v<Format, Png> ? "Png" : "Webp";
  }
};
TYPED_TEST_SUITE(Pictures, Formats, NameOfFormat);

TYPED_TEST(Pictures, HaveThePixelsThatTheReferenceGives) {
  typename TypeParam::Reader reader;
  const int checked = this->for_accepted([&](const std::string& name, const Json& facts) {
    Rows rows;
    ASSERT_TRUE(reader.read(picture<TypeParam>(name), &rows).ok());
    EXPECT_EQ(reader.get().width(), facts["size"][0]);
    EXPECT_EQ(reader.get().height(), facts["size"][1]);
    ASSERT_EQ(reader.get().orientation(), facts["orientation"]);
    const Bytes rgb = test::upright_rgb(rows, reader.get().orientation());
    EXPECT_EQ(test::sha256_hex(rgb.data(), rgb.size()), facts["rgb_sha256"]);
  });
  EXPECT_GE(checked, TypeParam::kAccepted);
}

TYPED_TEST(Pictures, AsTheProcessorMakesThemAreTheVeryBytesOfTheReference) {
  EngineOnTest engine;
  this->for_accepted([&](const std::string& name, const Json& facts) {
    const Bytes encoded = picture<TypeParam>(name);
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
  });
}

TYPED_TEST(Pictures, HaveInAWindowThePixelsOfTheWhole) {
  typename TypeParam::Reader reader;
  for (const std::string& name : TypeParam::windowed()) {
    Rows whole;
    ASSERT_TRUE(reader.read(picture<TypeParam>(name), &whole).ok());
    for (const Window& window : TypeParam::windows()) {
      Rows part;
      ASSERT_TRUE(reader.read(picture<TypeParam>(name), &part, &window).ok());
      ASSERT_EQ(part.rows.size(), static_cast<std::size_t>(window.y_end - window.y_begin));
      for (std::size_t r = 0; r < part.rows.size(); ++r) {
        const Bytes& row = whole.rows[r + static_cast<std::size_t>(window.y_begin)];
        EXPECT_EQ(part.rows[r], Bytes(row.begin() + 4 * window.x_begin, row.begin() + 4 * window.x_end)) << name;
      }
    }
  }
}

// Wherever the library or the walk over the chunks runs out of memory, it says so and nothing is written beyond.
TYPED_TEST(Pictures, AreReadInAnyMemoryOrItIsSaidToBeTooLittle) {
  for (const std::string& name : TypeParam::bounded()) {
    const Bytes encoded = picture<TypeParam>(name);
    bool fitted = false;
    std::size_t least = 0;
    for (std::size_t bytes = 0; bytes <= 160'000; bytes += 320) {
      typename TypeParam::Reader reader(bytes);
      Rows rows;
      const Verdict verdict = reader.read(encoded, &rows);
      EXPECT_TRUE(verdict.ok() || verdict.status == MEDIA_ENGINE_PICTURE_TOO_LARGE) << name << " " << bytes;
      EXPECT_TRUE(verdict.ok() || !fitted) << name << ": more memory does not help: " << bytes;
      if (verdict.ok() && !fitted) least = bytes;
      fitted = verdict.ok();
    }
    EXPECT_TRUE(fitted) << name;
    EXPECT_GT(least, TypeParam::kMoreBytes) << name;
  }
}

TYPED_TEST(Pictures, AreRefusedAtTheHeaderBeyondTheLimit) {
  for (const std::uint32_t most : {TypeParam::kPixels, TypeParam::kPixels - 1}) {
    media_engine_config config = media_engine_default_config(media_engine_builtin());
    config.max_pixels = most;
    EngineOnTest engine(config);
    EXPECT_EQ(status_of(done_with(picture<TypeParam>(TypeParam::kLargest), engine)),
              most == TypeParam::kPixels ? MEDIA_ENGINE_OK : MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS);
  }
}

template <typename Format>
void expect_texts(const std::vector<std::pair<std::string, std::vector<std::string>>>& files_of_text) {
  EngineOnTest engine;
  for (const auto& [text, files] : files_of_text) {
    for (const std::string& name : files) {
      const media_engine_completion done = done_with(picture<Format>(name), engine);
      EXPECT_EQ(media_engine_picture_text(status_of(done), done.detail), text) << name;
    }
  }
}

TEST(PngAndWebp, EachKindOfDamageHasItsWord) {
  const std::string damaged = media_engine_status_text(MEDIA_ENGINE_PICTURE_DAMAGED);
  expect_texts<Png>(
      {{"the PNG file is truncated", {"bad_only_signature.png", "bad_cut_in_pixels.png", "bad_cut_before_end.png"}},
       {"a header of the PNG file is broken", {"bad_checksum_of_header.png", "bad_exif.png"}},
       {damaged, {"bad_checksum_of_pixels.png", "bad_sum_of_rows.png"}},
       {"the picture has more pixels than allowed", {"bad_bomb_65500.png"}},
       {"the picture is too elongated", {"bad_elongated_40x2.png"}}});
  expect_texts<Webp>(
      {{"the WebP file is truncated",
        {"bad_only_signature.webp", "bad_cut_in_header.webp", "bad_cut_in_pixels.webp", "bad_cut_in_end.webp",
         "bad_cut_lossless.webp", "bad_few_pixels.webp"}},
       {"a header of the WebP file is broken",
        {"bad_start_code.webp", "bad_lossless_mark.webp", "bad_kind.webp", "bad_exif.webp", "bad_canvas.webp"}},
       {damaged, {"bad_few_pixels_lossless.webp", "bad_lossless_codes.webp", "bad_alpha.webp"}},
       {"the picture has more pixels than allowed", {"bad_bomb.webp"}},
       {"the picture is too elongated", {"bad_elongated_80x4.webp"}},
       {"is an animated WebP; convert it to a still picture", {"bad_animated.webp"}}});
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

TEST(Png, DamageIsRefusedInBothPreparations) {
  EngineOnTest engine;
  int refused = 0;
  for (const auto& [name, facts] : expected_files<Png>().items()) {
    const Bytes encoded = picture<Png>(name);
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

TEST(Png, AnElongatedPictureIsRefusedWithItsRatio) {
  EngineOnTest engine;
  const media_engine_completion done = done_with(picture<Png>("bad_elongated_40x2.png"), engine);
  EXPECT_EQ(done.detail, 15u | MEDIA_ENGINE_DETAIL_PNG);
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
    const media_engine_completion done = done_with(encoded, engine);
    EXPECT_EQ(status_of(done), MEDIA_ENGINE_PICTURE_OTHER_FORMAT) << file.name;
    const std::string text = media_engine_picture_text(status_of(done), done.detail);
    EXPECT_EQ(text.compare(0, std::strlen(file.name), file.name), 0) << text << ", expected " << file.name;
  }
  EXPECT_EQ(status_of(done_with(Bytes(), engine)), MEDIA_ENGINE_PICTURE_EMPTY);
}

}  // namespace
}  // namespace bascule::codec::test_png_and_webp
