// SPDX-License-Identifier: Apache-2.0
// The loader on the simulated device: the host engine's batches, bit for bit, whatever goes wrong and whoever works.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "firmware_shims/hpu_sim/driver.h"
#include "src/base/error.h"
#include "src/loader/loader.h"
#include "tests/loader/loader_run.h"
#include "tests/support/count_allocations.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_loader_device {
namespace {

using test::emoji_settings;
using test::fingerprints;
using test::LoaderRun;

constexpr std::int64_t kBatches = 5;  // of 7 samples

Manifest emoji() { return Manifest::load(test::emoji_folder() + "/test.jsonl", ManifestColumns()); }

LoaderSettings device_settings(const Manifest& manifest, const std::string& options) {
  LoaderSettings settings = emoji_settings(manifest);
  settings.media.driver = media_engine_hpu_sim();
  settings.media.options = options;
  settings.media.memory_bytes = std::size_t{80} << 20;  // device, host beside it, and four workers
  return settings;
}

LoaderSettings host_settings(const Manifest& manifest) {
  LoaderSettings settings = emoji_settings(manifest);
  settings.media.driver = media_engine_host();
  return settings;
}

TEST(LoaderDevice, GivesTheHostsBitsForAnyWorkersSlotsAndQueueDepth) {
  const Manifest manifest = emoji();
  const std::vector<std::uint64_t> expected = fingerprints(host_settings(manifest), 0, kBatches);
  for (const std::int64_t workers : {0, 1, 2, 4}) {
    for (const std::int64_t depth : {1, 3, 16}) {
      for (const std::int64_t slots : {2, 8}) {
        LoaderSettings settings = device_settings(manifest, workers == 2 ? "polling=1" : "");
        settings.workers = workers;
        settings.media.queue_depth = depth;
        settings.streams[0].ring_slots = slots;
        ASSERT_EQ(fingerprints(settings, 0, kBatches), expected) << workers << " " << depth << " " << slots;
      }
    }
  }
}

// The figures of how fast workers load hold the waiting; those of how much of the cores they take do not.
TEST(LoaderDevice, WaitsWithoutAProcessor) {
  const Manifest manifest = emoji();
  LoaderSettings settings = device_settings(manifest, "latency_ms=5");
  settings.workers = 1;
  settings.media.queue_depth = 1;
  LoaderRun run(settings);
  fingerprints(run.stream(), settings, 0, kBatches);
  const StreamStatistics stream = run.stream().statistics();
  EXPECT_GT(stream.processor_seconds, 0.0);
  EXPECT_GT(stream.loading_seconds - stream.processor_seconds, 0.1);  // 35 pictures, one after another
}

TEST(LoaderDevice, GivesTheHostsRandomCrops) {
  const Manifest manifest = emoji();
  LoaderSettings host = host_settings(manifest), device = device_settings(manifest, "");
  const std::vector<std::uint64_t> plain = fingerprints(host, 0, kBatches);
  for (LoaderSettings* const settings : {&host, &device}) {
    settings->random_crops = {Augment::kCropFlip, {0.08, 1.0}, {0.75, 1.5}};
    settings->media.interpolation = Interpolation::kBilinear;
  }
  const std::vector<std::uint64_t> expected = fingerprints(host, 0, kBatches);
  EXPECT_NE(expected, plain);
  EXPECT_EQ(fingerprints(device, 0, kBatches), expected);
}

TEST(LoaderDevice, GivesTheHostsBitsUnderEachFault) {
  const Manifest manifest = emoji();
  const std::vector<std::uint64_t> expected = fingerprints(host_settings(manifest), 0, kBatches);
  // A picture is given up after six attempts. Which picture meets which fault depends on the threads: the rates are so
  // low that six in a row practically never meet one.
  const char* const faults[] = {"lost_completion@9",
                                "duplicated_completion:0.1",
                                "late_completion@12",
                                "corrupted_completion:0.1",
                                "corrupted_descriptor:0.1",
                                "short_dma:0.1",
                                "decode_error:0.1",
                                "stalled_unit@7",
                                "queue_overrun:0.1",
                                "wrong_firmware@2 fault=surprise_reset@5",
                                "surprise_reset:0.1",
                                "reset_storm@6",
                                "hung_reset@8",
                                "spurious_interrupt:0.3",
                                "lost_doorbell:0.1"};
  for (const char* const fault : faults) {
    for (const std::int64_t workers : {0, 1, 2, 4}) {
      LoaderSettings settings = device_settings(manifest, std::string("timeout_ms=60 fault=") + fault);
      settings.workers = workers;
      settings.media.queue_depth = workers == 1 ? 3 : 16;
      LoaderRun run(settings);
      ASSERT_EQ(fingerprints(run.stream(), settings, 0, kBatches), expected) << fault << " " << workers;
      const media_engine_statistics media = run.loader().statistics().media;
      std::uint64_t found = 0;
      for (const std::uint64_t count : media.faults) found += count;
      EXPECT_GT(found, 0U) << fault << " " << workers;
      EXPECT_EQ(media.fallbacks, 0U);
    }
  }
}

TEST(LoaderDevice, GoesOnWithTheHostEngineWhenTheDeviceIsGone) {
  const Manifest manifest = emoji();
  const std::vector<std::uint64_t> expected = fingerprints(host_settings(manifest), 0, kBatches);
  for (const char* const fault :
       {"device_gone@1", "device_gone@17", "wrong_firmware@1", "surprise_reset:1", "decode_error:1"}) {
    for (const std::int64_t workers : {0, 1, 2, 4}) {
      LoaderSettings settings = device_settings(manifest, std::string("fault=") + fault);
      settings.media.fallback = true;
      settings.workers = workers;
      testing::internal::CaptureStderr();
      LoaderRun run(settings);
      const std::vector<std::uint64_t> batches = fingerprints(run.stream(), settings, 0, kBatches);
      const std::string said = testing::internal::GetCapturedStderr();
      ASSERT_EQ(batches, expected) << fault << " " << workers;
      EXPECT_EQ(run.loader().statistics().media.fallbacks, 1U) << fault << " " << workers;
      const std::size_t warning = said.find("warning: media engine: ");
      EXPECT_NE(warning, std::string::npos) << said;
      EXPECT_EQ(said.find("warning: media engine: ", warning + 1), std::string::npos) << said;
    }
  }
}

// JPEGs and PNGs in turn, on a device that decodes JPEG alone and goes wrong now and then.
TEST(LoaderDevice, DecodesPngsBesideTheDevice) {
  const test::TemporaryFolder folder;
  const Manifest emojis = emoji();
  const std::string pngs = BASCULE_TEST_DATA "/images/png/";
  std::string rows;
  for (const char* const name : {"rgb_8", "gray_16_adam7", "palette_4", "exif_6", "rgba_8", "xmp_packed_behind_7"}) {
    const std::string jpeg = emojis.folder() + "/" + std::string(emojis.row(emojis.rows() / 2).image_path);
    for (const std::string& picture : {pngs + name + ".png", jpeg, jpeg})
      rows += R"({"image": ")" + picture + R"(", "caption": "a picture"})" + "\n";
  }
  const Manifest manifest = Manifest::load(folder.write("rows.jsonl", rows), ManifestColumns());
  constexpr std::int64_t kTwoEpochs = 6;
  const std::vector<std::uint64_t> expected = fingerprints(host_settings(manifest), 0, kTwoEpochs);
  for (const char* const options : {"", "fault=surprise_reset@3 fault=lost_doorbell@5"}) {
    for (const std::int64_t workers : {0, 1, 4}) {
      LoaderSettings settings = device_settings(manifest, options);
      settings.workers = workers;
      LoaderRun run(settings);
      ASSERT_EQ(fingerprints(run.stream(), settings, 0, kTwoEpochs), expected) << options << " " << workers;
      EXPECT_EQ(run.loader().statistics().media.bad_pictures, 0U);
    }
  }
}

TEST(LoaderDevice, StopsWhereThereIsNoFallback) {
  const Manifest manifest = emoji();
  for (const std::int64_t workers : {0, 2}) {
    LoaderSettings settings = device_settings(manifest, "fault=device_gone@10");
    settings.workers = workers;
    LoaderRun run(settings);
    run.stream().start(0, kBatches);
    const Batch* batch = nullptr;
    Status status = run.stream().next(&batch);
    while (status.ok()) {
      run.stream().release();
      status = run.stream().next(&batch);
    }
    EXPECT_EQ(status.code, StatusCode::kDeviceFailed);
    EXPECT_NE(describe(status, manifest).find("the device does not respond"), std::string::npos);
  }
  LoaderSettings settings = device_settings(manifest, "fault=wrong_firmware@1");
  try {
    LoaderRun run(settings);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find("firmware version"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("media_engine.fallback"), std::string::npos) << error.what();
  }
}

TEST(LoaderDevice, PlansTheMemoryOfTheHostEngineBesideIt) {
  const Manifest manifest = emoji();
  LoaderSettings settings = device_settings(manifest, "");
  const std::size_t without = plan_loader(settings).media_engine_bytes;
  settings.media.fallback = true;
  settings.workers = 3;
  const std::size_t with = plan_loader(settings).media_engine_bytes;
  EXPECT_GT(with, without);
  EXPECT_LT(with, without + 3 * (std::size_t{5} << 20)) << "the large area is shared";
  EXPECT_LE(with, settings.media.memory_bytes);
}

TEST(LoaderDevice, AllocatesNothingOnceItIsMade) {
  const Manifest manifest = emoji();
  for (const std::int64_t workers : {0, 2}) {
    LoaderSettings settings =
        device_settings(manifest, "fault=surprise_reset@5 fault=short_dma@9 fault=device_gone@20");
    settings.media.fallback = true;
    settings.workers = workers;
    testing::internal::CaptureStderr();
    LoaderRun run(settings);
    const std::int64_t before = test::allocations();
    run.stream().start(0, kBatches);
    const Batch* batch = nullptr;
    while (run.stream().next(&batch).ok()) run.stream().release();
    run.loader().close();
    EXPECT_EQ(test::allocations() - before, 0) << workers;
    testing::internal::GetCapturedStderr();
  }
}

}  // namespace
}  // namespace bascule::test_loader_device
