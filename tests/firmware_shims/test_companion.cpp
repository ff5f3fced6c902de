// SPDX-License-Identifier: Apache-2.0
// A device with the host engine beside it: PNGs go to the host; with a fallback, when the device is given up, what was
// in comes back from the host engine, once, with the host's bits, whichever threads wait.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "firmware_shims/hpu_sim/driver.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {
namespace {

constexpr std::uint32_t kSide = 48;
std::atomic<int> fallbacks_heard{0};
std::atomic<int> last_reason{0};

media_engine_config config_of(const char* options, std::uint32_t queue_depth, std::uint32_t fallback = 1) {
  media_engine_config config = media_engine_default_config(media_engine_hpu_sim());
  config.queue_depth = queue_depth;
  config.units = 2;
  config.max_side = kSide;
  config.picture_bytes = std::size_t{8} << 20;
  config.options = options;
  config.host_units = 2;
  config.fallback = fallback;
  config.on_fallback = [](media_engine_status why) {
    ++fallbacks_heard;
    last_reason = why;
  };
  fallbacks_heard = 0;
  return config;
}

Bytes picture() { return read_bytes(reference_dir() + "/images/jpeg/base_420.jpg"); }

std::vector<float> host_pixels(const Bytes& encoded) {
  media_engine_config config = media_engine_default_config(media_engine_host());
  config.max_side = kSide;
  EngineOnTest host(config);
  Request request(encoded, MEDIA_ENGINE_TRAINING, kSide, false, 1);
  run_alone(host.get(), request);
  return request.pixels;
}

TEST(Fallback, EveryJobComesBackOnceWithTheHostsBits) {
  const Bytes encoded = picture();
  const std::vector<float> expected = host_pixels(encoded);
  constexpr std::size_t kJobs = 60;
  for (const char* const options : {"fault=device_gone@20", "fault=surprise_reset:1", "fault=decode_error:1"}) {
    for (const std::uint32_t depth : {1U, 3U, 16U}) {
      for (const int threads : {1, 4}) {
        SCOPED_TRACE(std::string(options) + " depth " + std::to_string(depth) + " threads " + std::to_string(threads));
        std::vector<std::unique_ptr<Request>> jobs;
        for (std::size_t i = 0; i < kJobs; ++i)
          jobs.push_back(std::make_unique<Request>(encoded, MEDIA_ENGINE_TRAINING, kSide, false, i));
        EngineOnTest engine(config_of(options, depth));
        std::vector<std::atomic<int>> returned(kJobs);
        std::atomic<std::size_t> next{0};
        const auto submit_one_wait_for_one = [&] {
          for (std::size_t mine = next++; mine < kJobs; mine = next++) {
            while (media_engine_submit(engine.get(), &jobs[mine]->job) == MEDIA_ENGINE_FULL) std::this_thread::yield();
            // EMPTY: the last one queued runs in another thread, which has mine to give in exchange.
            media_engine_completion done = {};
            const media_engine_status status = media_engine_wait(engine.get(), &done, kWaitNs);
            EXPECT_TRUE(status == MEDIA_ENGINE_OK || status == MEDIA_ENGINE_EMPTY) << status;
            if (status != MEDIA_ENGINE_OK) continue;
            EXPECT_EQ(done.status, MEDIA_ENGINE_OK);
            ++returned[done.sequence];
          }
        };
        std::vector<std::thread> workers;
        for (int t = 0; t < threads; ++t) workers.emplace_back(submit_one_wait_for_one);
        for (std::thread& worker : workers) worker.join();
        media_engine_completion rest = {};
        while (media_engine_wait(engine.get(), &rest, kWaitNs) == MEDIA_ENGINE_OK) ++returned[rest.sequence];
        for (std::size_t i = 0; i < kJobs; ++i) {
          ASSERT_EQ(returned[i], 1) << i;
          ASSERT_EQ(std::memcmp(jobs[i]->pixels.data(), expected.data(), expected.size() * sizeof(float)), 0) << i;
        }
        const media_engine_statistics counts = media_engine_get_statistics(engine.get());
        EXPECT_EQ(counts.completed, kJobs);
        EXPECT_EQ(counts.in_flight, 0U);
        EXPECT_EQ(counts.device_errors, 0U);
        EXPECT_EQ(counts.fallbacks, 1U);
        EXPECT_GE(counts.fallback_jobs, 1U);
        EXPECT_EQ(fallbacks_heard, 1);
      }
    }
  }
}

TEST(Fallback, ADeviceThatDoesNotOpenIsReplacedAtOnce) {
  const Bytes encoded = picture();
  EngineOnTest engine(config_of("fault=wrong_firmware@1", 4));
  EXPECT_EQ(fallbacks_heard, 1);
  EXPECT_EQ(last_reason, MEDIA_ENGINE_DEVICE_BAD_FIRMWARE);
  Request request(encoded, MEDIA_ENGINE_TRAINING, kSide, false, 9);
  EXPECT_EQ(status_of(run_alone(engine.get(), request)), MEDIA_ENGINE_OK);
  EXPECT_EQ(request.pixels, host_pixels(encoded));
  EXPECT_EQ(media_engine_get_statistics(engine.get()).faults[MEDIA_ENGINE_FAULT_WRONG_FIRMWARE], 1U);
}

TEST(Fallback, ResetCancelAndCloseWhileTheDeviceGoes) {
  const Bytes encoded = picture();
  for (int round = 0; round < 8; ++round) {
    std::vector<std::unique_ptr<Request>> jobs;
    for (std::size_t i = 0; i < 8; ++i)
      jobs.push_back(std::make_unique<Request>(encoded, MEDIA_ENGINE_TRAINING, kSide, false, i));
    EngineOnTest engine(config_of("fault=device_gone@4", 8));
    for (const auto& job : jobs) ASSERT_EQ(media_engine_submit(engine.get(), &job->job), MEDIA_ENGINE_OK);
    media_engine_completion done = {};
    for (int i = 0; i < round; ++i) ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
    const media_engine_status cancelled = media_engine_cancel(engine.get(), 7);
    EXPECT_TRUE(cancelled == MEDIA_ENGINE_OK || cancelled == MEDIA_ENGINE_BUSY || cancelled == MEDIA_ENGINE_NOT_FOUND);
    if (round % 2 == 0) {
      ASSERT_EQ(media_engine_reset(engine.get()), MEDIA_ENGINE_OK);
      EXPECT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_EMPTY);
      const media_engine_statistics counts = media_engine_get_statistics(engine.get());
      EXPECT_EQ(counts.submitted, counts.completed + counts.cancelled + counts.reset_away);
      run_alone(engine.get(), *jobs[0]);
    }
  }
}

TEST(Fallback, AnEngineThatWorksInPollHasNoneAndNeedsNone) {
  media_engine_config config = media_engine_default_config(media_engine_host());
  const std::size_t alone = media_engine_memory_needed(&config);
  config.host_units = 3;
  config.fallback = 1;
  EXPECT_EQ(media_engine_memory_needed(&config), alone);
}

TEST(Companion, CostsTheMemoryOfTheHostsUnitsAndOfTheLargestPngOrWebp) {
  media_engine_config config = config_of("", 4, 0);
  config.picture_bytes = std::size_t{100} << 20;
  config.host_units = 0;
  const std::size_t without = media_engine_memory_needed(&config);
  config.host_units = 2;
  const std::size_t with = media_engine_memory_needed(&config);
  EXPECT_LT(with, without + (std::size_t{34} << 20));
  config.fallback = 1;
  EXPECT_EQ(media_engine_memory_needed(&config), with);
}

TEST(Companion, AFallbackNeedsUnits) {
  media_engine_config config = config_of("", 4);
  config.host_units = 0;
  EXPECT_EQ(media_engine_memory_needed(&config), 0U);
}

Bytes png() { return read_bytes(BASCULE_TEST_DATA "/images/png/size_100x150_adam7.png"); }

// Device and host at work together, in any number of threads, with the device at fault or not: every job comes back
// once, with the host's bits, and is counted once.
TEST(Companion, DecodesWhatTheDeviceDoesNotBesideIt) {
  const Bytes files[] = {picture(), png(), read_bytes(BASCULE_TEST_DATA "/images/png/bad_few_rows.png")};
  const std::vector<float> expected[] = {host_pixels(files[0]), host_pixels(files[1])};
  constexpr std::size_t kJobs = 60;
  for (const char* const options : {"", "fault=lost_completion@3 timeout_ms=50", "fault=device_gone@5"}) {
    for (const std::uint32_t depth : {1U, 4U, 16U}) {
      for (const std::size_t threads : {1U, 4U}) {
        SCOPED_TRACE(std::string(options) + " depth " + std::to_string(depth) + " threads " + std::to_string(threads));
        std::vector<std::unique_ptr<Request>> jobs;
        for (std::size_t i = 0; i < kJobs; ++i)
          jobs.push_back(std::make_unique<Request>(files[i % 3], MEDIA_ENGINE_TRAINING, kSide, false, i));
        EngineOnTest engine(config_of(options, depth));
        std::vector<std::atomic<int>> returned(kJobs);
        std::vector<std::atomic<int>> statuses(kJobs);
        std::atomic<std::size_t> next{0};
        const auto take_one = [&] {
          media_engine_completion done = {};
          const media_engine_status status = media_engine_wait(engine.get(), &done, kWaitNs);
          EXPECT_TRUE(status == MEDIA_ENGINE_OK || status == MEDIA_ENGINE_EMPTY) << status;
          if (status != MEDIA_ENGINE_OK) return false;
          statuses[done.sequence] = done.status;
          ++returned[done.sequence];
          return true;
        };
        const auto fill_and_take = [&] {
          for (std::size_t mine = next++; mine < kJobs; mine = next++) {
            while (media_engine_submit(engine.get(), &jobs[mine]->job) == MEDIA_ENGINE_FULL) {
              if (!take_one()) std::this_thread::yield();
            }
          }
        };
        std::vector<std::thread> workers;
        for (std::size_t t = 0; t < threads; ++t) workers.emplace_back(fill_and_take);
        for (std::thread& worker : workers) worker.join();
        while (take_one()) {
        }
        for (std::size_t i = 0; i < kJobs; ++i) {
          ASSERT_EQ(returned[i], 1) << i;
          ASSERT_EQ(statuses[i], i % 3 == 2 ? MEDIA_ENGINE_PICTURE_DAMAGED + 0 : MEDIA_ENGINE_OK + 0) << i;
          if (i % 3 < 2) {
            ASSERT_EQ(jobs[i]->pixels, expected[i % 3]) << i;
          }
        }
        const media_engine_statistics counts = media_engine_get_statistics(engine.get());
        EXPECT_EQ(counts.submitted, kJobs);
        EXPECT_EQ(counts.completed, kJobs);
        EXPECT_EQ(counts.bad_pictures, kJobs / 3);
        EXPECT_EQ(counts.in_flight, 0U);
        EXPECT_EQ(counts.fallbacks, std::string(options) == "fault=device_gone@5" ? 1U : 0U);
      }
    }
  }
}

TEST(Companion, WithoutAFallbackALostDeviceIsSaidAndPngsGoOn) {
  const Bytes jpeg = picture(), other = png();
  EngineOnTest engine(config_of("fault=device_gone@1", 4, 0));
  Request lost(jpeg, MEDIA_ENGINE_TRAINING, kSide, false, 1);
  ASSERT_EQ(media_engine_submit(engine.get(), &lost.job), MEDIA_ENGINE_OK);
  media_engine_completion done = {};
  EXPECT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_DEVICE_GONE);
  Request good(other, MEDIA_ENGINE_TRAINING, kSide, false, 2);
  EXPECT_EQ(status_of(run_alone(engine.get(), good)), MEDIA_ENGINE_OK);
  EXPECT_EQ(good.pixels, host_pixels(other));
  EXPECT_EQ(fallbacks_heard, 0);
}

TEST(Companion, WithoutOneTheDeviceRefusesPngs) {
  media_engine_config config = config_of("", 4, 0);
  config.host_units = 0;
  EngineOnTest engine(config);
  const Bytes encoded = png();
  const media_engine_completion done =
      run_alone(engine.get(), Request(encoded, MEDIA_ENGINE_TRAINING, kSide, false, 1));
  EXPECT_EQ(status_of(done), MEDIA_ENGINE_PICTURE_UNSUPPORTED);
  EXPECT_STREQ(media_engine_picture_text(status_of(done), done.detail), "is PNG, which the device does not decode");
}

TEST(Companion, CancelAndResetReachBothEngines) {
  const Bytes files[] = {picture(), png()};
  EngineOnTest engine(config_of("", 8));
  std::vector<std::unique_ptr<Request>> jobs;
  for (std::size_t i = 0; i < 8; ++i)
    jobs.push_back(std::make_unique<Request>(files[i % 2], MEDIA_ENGINE_TRAINING, kSide, false, i));
  for (const auto& job : jobs) ASSERT_EQ(media_engine_submit(engine.get(), &job->job), MEDIA_ENGINE_OK);
  EXPECT_EQ(media_engine_cancel(engine.get(), 7), MEDIA_ENGINE_OK);  // queued in the host: nobody has polled
  EXPECT_EQ(media_engine_cancel(engine.get(), 7), MEDIA_ENGINE_NOT_FOUND);
  ASSERT_EQ(media_engine_reset(engine.get()), MEDIA_ENGINE_OK);
  media_engine_completion done = {};
  EXPECT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_EMPTY);
  const media_engine_statistics counts = media_engine_get_statistics(engine.get());
  EXPECT_EQ(counts.cancelled, 1U);
  EXPECT_EQ(counts.reset_away, 7U);
  EXPECT_EQ(counts.in_flight, 0U);
  EXPECT_EQ(status_of(run_alone(engine.get(), *jobs[1])), MEDIA_ENGINE_OK);
}

}  // namespace
}  // namespace bascule::test
