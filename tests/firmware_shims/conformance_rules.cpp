// SPDX-License-Identifier: Apache-2.0
// Tests that every media engine must pass, of its rules: what it says of itself, refuses, reads and writes. Linked once
// with each engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tests/firmware_shims/conformance_engine.h"
#include "tests/firmware_shims/encode_jpeg.h"
#include "tests/support/guarded_buffer.h"

namespace bascule::test {
namespace {

TEST(Conformance, CapabilitiesNameTheEngineAndWhatItTakes) {
  const media_engine_capabilities can = media_engine_query(media_engine_builtin());
  EXPECT_EQ(can.api_version, std::uint32_t{MEDIA_ENGINE_API_VERSION});
  ASSERT_NE(can.name, nullptr);
  EXPECT_GT(std::strlen(can.name), 0u);
  EXPECT_NE(can.preparations & 1u << MEDIA_ENGINE_TRAINING, 0u);
  EXPECT_NE(can.preparations & 1u << MEDIA_ENGINE_PROCESSOR, 0u);
  EXPECT_NE(can.preparations & 1u << MEDIA_ENGINE_SQUARE_PROCESSOR, 0u);
  EXPECT_NE(can.elements & 1u << MEDIA_ENGINE_FLOAT32, 0u);
  EXPECT_NE(can.formats & 1u << MEDIA_ENGINE_FORMAT_JPEG, 0u);
  EXPECT_GE(can.max_units, 1u);
  EXPECT_GE(can.max_queue_depth, 16u);
  EXPECT_GE(can.max_side, 288u);
}

TEST(Conformance, OpenRefusesWhatBreaksARule) {
  media_engine_config config = config_of(4, 1);
  config.memory_bytes = media_engine_memory_needed(&config);
  std::vector<std::uint8_t> memory(config.memory_bytes + 64);
  config.memory = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
  const auto status_with = [](media_engine_config changed) {
    media_engine* engine = nullptr;
    const media_engine_status status = media_engine_open(&engine, &changed);
    EXPECT_EQ(engine == nullptr, status != MEDIA_ENGINE_OK);
    media_engine_close(engine);
    return status;
  };
  const auto with = [&](auto change) {
    media_engine_config changed = config;
    change(changed);
    return status_with(changed);
  };
  EXPECT_EQ(with([](media_engine_config&) {}), MEDIA_ENGINE_OK);
  EXPECT_EQ(with([](media_engine_config& c) { c.memory_bytes -= 1; }), MEDIA_ENGINE_NO_MEMORY);
  EXPECT_EQ(with([](media_engine_config& c) { c.memory = nullptr; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_config& c) { c.memory = static_cast<char*>(c.memory) + 8; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_config& c) { c.api_version += 1; }), MEDIA_ENGINE_UNSUPPORTED);
  EXPECT_EQ(with([](media_engine_config& c) { c.queue_depth = 0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_config& c) { c.units = 0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_config& c) { c.max_side = 0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_config& c) { c.picture_bytes = 0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_config& c) { c.picture_bytes = SIZE_MAX; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_config& c) { c.driver = nullptr; }), MEDIA_ENGINE_INVALID);
}

TEST(Conformance, SubmitRefusesWhatBreaksARule) {
  EngineOnTest engine(config_of(4, 1));
  const Bytes encoded = picture("base_420.jpg");
  const Request good(encoded, MEDIA_ENGINE_TRAINING, kSide, false, 7);
  const auto with = [&](auto change) {
    media_engine_job job = good.job;
    change(job);
    return media_engine_submit(engine.get(), &job);
  };
  EXPECT_EQ(with([](media_engine_job& j) { j.pixels = nullptr; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.pixels = static_cast<char*>(j.pixels) + 2; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.encoded = nullptr; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.side = 0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.side = kSide + 1; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.std[1] = 0.0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.mean[2] = std::nan(""); }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.raw = 2; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.shortest_edge = kSide - 1; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.shortest_edge = 65537; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.interpolation = 2; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.augment = 2; }), MEDIA_ENGINE_INVALID);
  const auto crop_with = [&](auto change) {
    return with([&](media_engine_job& j) {
      make_crop(&j, 0);
      change(j);
    });
  };
  EXPECT_EQ(crop_with([](media_engine_job& j) { j.crop_scale[0] = -0.1; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(crop_with([](media_engine_job& j) { j.crop_scale[1] = 1.1; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(crop_with([](media_engine_job& j) { j.crop_scale[1] = std::nan(""); }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(crop_with([](media_engine_job& j) { j.crop_ratio[0] = 2.0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(crop_with([](media_engine_job& j) { j.crop_ratio[0] = 0.0; }), MEDIA_ENGINE_INVALID);
  const auto processor_with = [&](auto change) {
    return with([&](media_engine_job& j) {
      j.preparation = MEDIA_ENGINE_PROCESSOR;
      change(j);
    });
  };
  EXPECT_EQ(processor_with([](media_engine_job& j) { j.size_divisor = 0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(processor_with([](media_engine_job& j) { j.shortest_edge = 65537; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(processor_with([](media_engine_job& j) { j.levels = 0.0; }), MEDIA_ENGINE_INVALID);
  const auto square_with = [&](auto change) {
    return processor_with([&](media_engine_job& j) {
      j.preparation = MEDIA_ENGINE_SQUARE_PROCESSOR;
      change(j);
    });
  };
  EXPECT_EQ(square_with([](media_engine_job& j) { j.interpolation = 2; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(square_with([](media_engine_job& j) { j.levels = -1.0; }), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(with([](media_engine_job& j) { j.preparation = 0; }), MEDIA_ENGINE_UNSUPPORTED);
  EXPECT_EQ(with([](media_engine_job& j) { j.preparation = 99; }), MEDIA_ENGINE_UNSUPPORTED);
  EXPECT_EQ(with([](media_engine_job& j) { j.element = 77; }), MEDIA_ENGINE_UNSUPPORTED);
  EXPECT_EQ(media_engine_submit(engine.get(), nullptr), MEDIA_ENGINE_INVALID);
  EXPECT_EQ(media_engine_get_statistics(engine.get()).submitted, 0u);
}

TEST(Conformance, WritesExactlyThePixelsAndReadsExactlyTheBytes) {
  EngineOnTest engine(config_of(2, 1));
  for (const char* name : {"base_420.jpg", "exif_o6_long.jpg", "exif_o7.jpg", "size_500x150.jpg", "bad_trunc_50.jpg"}) {
    const Bytes encoded = picture(name);
    for (const std::uint32_t side : {33u, 64u}) {
      for (const media_engine_preparation preparation :
           {MEDIA_ENGINE_TRAINING, MEDIA_ENGINE_PROCESSOR, MEDIA_ENGINE_SQUARE_PROCESSOR}) {
        GuardedBuffer<std::uint8_t> bytes(encoded.size());
        std::copy(encoded.begin(), encoded.end(), bytes.data());
        GuardedBuffer<float> at_end(std::size_t{3} * side * side);
        GuardedBuffer<float> at_start(std::size_t{3} * side * side, AlignAt::kStart);
        for (GuardedBuffer<float>* pixels : {&at_end, &at_start}) {
          Request request(encoded, preparation, side, false);
          request.job.encoded = bytes.data();
          request.job.pixels = pixels->data();
          run_alone(engine.get(), request);
        }
      }
    }
  }
}

TEST(Conformance, LimitsRefuseBeforeTheFirstPixelAndWhateverRunsBeside) {
  const Bytes progressive = encode_jpeg(1200, 900, {true, false});
  for (const std::uint32_t units : {1u, 2u}) {
    const auto status_with = [&](auto change, const Bytes& encoded) {
      media_engine_config config = config_of(4, units);
      change(config);
      EngineOnTest engine(config);
      return status_of(run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false)));
    };
    EXPECT_EQ(status_with([](media_engine_config&) {}, progressive), MEDIA_ENGINE_OK);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.picture_bytes = 6'000'000; }, progressive),
              MEDIA_ENGINE_PICTURE_TOO_LARGE);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.picture_bytes = 10'000; }, progressive),
              MEDIA_ENGINE_PICTURE_TOO_LARGE);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.picture_bytes = 12'000'000; }, progressive), MEDIA_ENGINE_OK);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.max_pixels = 1200 * 900; }, progressive), MEDIA_ENGINE_OK);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.max_pixels = 1200 * 900 - 1; }, progressive),
              MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.max_scans = 10; }, progressive), MEDIA_ENGINE_OK);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.max_scans = 9; }, progressive),
              MEDIA_ENGINE_PICTURE_TOO_MANY_SCANS);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.max_scan_megapixels = 11; }, progressive), MEDIA_ENGINE_OK);
    EXPECT_EQ(status_with([](media_engine_config& c) { c.max_scan_megapixels = 10; }, progressive),
              MEDIA_ENGINE_PICTURE_TOO_MUCH_WORK);
  }
}

// With the bytes inserted before each restart marker.
Bytes with_bytes_before_restarts(const Bytes& jpeg, const Bytes& inserted) {
  const Bytes scan_begin = {0xFF, 0xDA};
  const auto data = std::search(jpeg.begin(), jpeg.end(), scan_begin.begin(), scan_begin.end());
  Bytes out;
  for (auto at = jpeg.begin(); at != jpeg.end(); ++at) {
    const bool is_restart = at >= data && at + 1 != jpeg.end() && *at == 0xFF && (at[1] & 0xF8) == 0xD0;
    if (is_restart) out.insert(out.end(), inserted.begin(), inserted.end());
    out.push_back(*at);
  }
  return out;
}

// As some cameras write them. Pillow shows the picture, since libjpeg finds the marker that it expects.
TEST(Conformance, BytesBeforeAnExpectedRestartMarkerChangeNothing) {
  EngineOnTest engine(config_of(1, 1));
  const auto decode = [&](const Bytes& jpeg, std::vector<float>* pixels = nullptr) {
    const Request request(jpeg, MEDIA_ENGINE_PROCESSOR, kSide, true);
    const media_engine_status status = status_of(run_alone(engine.get(), request));
    if (pixels != nullptr) *pixels = request.pixels;
    return status;
  };
  // In a progressive file libjpeg may count fewer bytes before the marker that ends the scan.
  const std::pair<const char*, Bytes> padded_files[] = {{"rst_rows.jpg", Bytes(1)},
                                                        {"rst_3b.jpg", {0x00, 0x12, 0x34}},
                                                        {"rst_1b_444.jpg", {0xFF, 0x00, 0x34}},
                                                        {"prog_422_rst.jpg", Bytes(12, 0x55)}};
  for (const auto& [name, inserted] : padded_files) {
    std::vector<float> whole, padded;
    const Bytes jpeg = picture(name);
    ASSERT_EQ(decode(jpeg, &whole), MEDIA_ENGINE_OK) << name;
    EXPECT_EQ(decode(with_bytes_before_restarts(jpeg, inserted), &padded), MEDIA_ENGINE_OK) << name;
    EXPECT_EQ(padded, whole) << name;
  }
  // Before the first scan no marker is expected: libjpeg passes over both.
  Bytes in_header = picture("rst_rows.jpg");
  const Bytes scan_begin = {0xFF, 0xDA}, stray = {0x00, 0xFF, 0xD0};
  in_header.insert(std::search(in_header.begin(), in_header.end(), scan_begin.begin(), scan_begin.end()), stray.begin(),
                   stray.end());
  EXPECT_EQ(decode(in_header), MEDIA_ENGINE_OK);
  // Other markers, a restart marker out of turn, and one that nothing expects after the last row.
  EXPECT_EQ(decode(picture("bad_scan_junk_before_eoi.jpg")), MEDIA_ENGINE_PICTURE_DAMAGED);
  EXPECT_EQ(decode(with_bytes_before_restarts(picture("bad_rst_order.jpg"), {0x00})), MEDIA_ENGINE_PICTURE_DAMAGED);
  for (std::uint8_t marker = 0xD0; marker <= 0xD7; ++marker) {
    for (const std::size_t before : {0u, 30u}) {
      Bytes after_rows(before);
      after_rows.insert(after_rows.end(), {0xFF, marker});
      Bytes jpeg = picture("rst_rows.jpg");
      jpeg.insert(jpeg.end() - 2, after_rows.begin(), after_rows.end());
      EXPECT_EQ(decode(jpeg), before == 0 ? MEDIA_ENGINE_OK : MEDIA_ENGINE_PICTURE_DAMAGED) << int{marker};
    }
  }
}

TEST(Conformance, TheFormatsThatItNamesAreThoseThatItDecodes) {
  EngineOnTest engine(config_of(1, 1));
  const auto expect = [&](const char* path, media_engine_format format, const char* refusal) {
    const bool is_named = (media_engine_query(media_engine_builtin()).formats & 1u << format) != 0;
    const Bytes picture = read_bytes(std::string(BASCULE_TEST_DATA "/images/") + path);
    const media_engine_completion done = run_alone(engine.get(), Request(picture, MEDIA_ENGINE_TRAINING, kSide, false));
    EXPECT_EQ(status_of(done), is_named ? MEDIA_ENGINE_OK : MEDIA_ENGINE_PICTURE_UNSUPPORTED) << path;
    if (!is_named) {
      EXPECT_STREQ(media_engine_picture_text(status_of(done), done.detail), refusal);
    }
  };
  expect("png/rgb_8.png", MEDIA_ENGINE_FORMAT_PNG, "is PNG, which the device does not decode");
  expect("webp/lossy_40.webp", MEDIA_ENGINE_FORMAT_WEBP, "is WebP, which the device does not decode");
}

// A quarter of the memory of a picture is for a PNG: an interlaced one takes 3 bytes a pixel of it.
TEST(Conformance, AnInterlacedPngFitsIntoAQuarterOfThePicturesMemory) {
  if ((media_engine_query(media_engine_builtin()).formats & 1u << MEDIA_ENGINE_FORMAT_PNG) == 0)
    GTEST_SKIP() << "this engine decodes no PNG";
  const Bytes png = read_bytes(BASCULE_TEST_DATA "/images/png/rgb_8_adam7.png");
  const auto status_with = [&](std::size_t picture_bytes) {
    media_engine_config config = config_of(1, 1);
    config.picture_bytes = picture_bytes;
    EngineOnTest engine(config);
    return status_of(run_alone(engine.get(), Request(png, MEDIA_ENGINE_TRAINING, kSide, false)));
  };
  EXPECT_EQ(status_with(10'000), MEDIA_ENGINE_PICTURE_TOO_LARGE);
  EXPECT_EQ(status_with(std::size_t{1} << 20), MEDIA_ENGINE_OK);
}

TEST(Conformance, EveryStatusHasATextAndABlame) {
  for (const int value :
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 200, 201, 202}) {
    const auto status = static_cast<media_engine_status>(value);
    EXPECT_STRNE(media_engine_status_text(status), media_engine_status_text(static_cast<media_engine_status>(9)))
        << value;
    EXPECT_EQ(media_engine_is_bad_picture(status), value >= 100 && value < 200 ? 1 : 0);
    EXPECT_EQ(media_engine_is_bad_device(status), value >= 200 ? 1 : 0);
  }
}

}  // namespace
}  // namespace bascule::test
