// SPDX-License-Identifier: Apache-2.0
// The simulated device and its driver: every fault that can be injected is found, counted and mended, and the pixels
// are the host engine's, bit for bit.
#include "firmware_shims/hpu_sim/driver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "firmware_shims/hpu_sim/registers.h"
#include "tests/firmware_shims/encode_jpeg.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/support/reference_dir.h"

namespace bascule::test::test_hpu_sim {
namespace {

constexpr std::uint32_t kSide = 48;
constexpr std::size_t kJobs = 30;

media_engine_config config_of(const media_engine_driver* driver, const char* options = nullptr,
                              std::uint32_t queue_depth = 4, std::uint32_t units = 2) {
  media_engine_config config = media_engine_default_config(driver);
  config.queue_depth = queue_depth;
  config.units = units;
  config.max_side = kSide;
  config.picture_bytes = std::size_t{8} << 20;
  config.options = options;
  return config;
}

const std::vector<Bytes>& pictures() {
  static const std::vector<Bytes> all = [] {
    std::vector<Bytes> read;
    for (const char* name : {"base_420.jpg", "bad_trunc_50.jpg", "prog_444.jpg", "grey.jpg", "exif_o6_long.jpg"})
      read.push_back(read_bytes(reference_dir() + "/images/jpeg/" + name));
    return read;
  }();
  return all;
}

struct Result {
  media_engine_completion completion;
  std::vector<float> pixels;
};

std::vector<std::unique_ptr<Request>> requests(std::size_t count) {
  std::vector<std::unique_ptr<Request>> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(std::make_unique<Request>(pictures()[i % pictures().size()],
                                             i % 2 == 0 ? MEDIA_ENGINE_TRAINING : MEDIA_ENGINE_PROCESSOR, kSide, false,
                                             i));
    made.back()->pixels.assign(made.back()->pixels.size(), -1.0F);
  }
  return made;
}

// All jobs through the engine, as many at once as it takes.
std::vector<Result> run_all(media_engine* engine, std::size_t count = kJobs) {
  std::vector<std::unique_ptr<Request>> jobs = requests(count);
  std::vector<Result> results(count);
  std::size_t submitted = 0;
  for (std::size_t completed = 0; completed < count; ++completed) {
    while (submitted < count && media_engine_submit(engine, &jobs[submitted]->job) == MEDIA_ENGINE_OK) ++submitted;
    media_engine_completion done = {};
    const media_engine_status status = media_engine_wait(engine, &done, kWaitNs);
    EXPECT_EQ(status, MEDIA_ENGINE_OK) << media_engine_status_text(status);
    if (status != MEDIA_ENGINE_OK) break;
    results[done.sequence] = {done, jobs[done.sequence]->pixels};
  }
  return results;
}

const std::vector<Result>& host_results() {
  static const std::vector<Result> results = [] {
    EngineOnTest host(config_of(media_engine_host()));
    return run_all(host.get());
  }();
  return results;
}

void expect_hosts_bits(const std::vector<Result>& results) {
  ASSERT_EQ(results.size(), host_results().size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& expected = host_results()[i];
    ASSERT_EQ(results[i].completion.status, expected.completion.status) << i;
    EXPECT_EQ(results[i].completion.detail, expected.completion.detail) << i;
    EXPECT_EQ(results[i].completion.width, expected.completion.width) << i;
    EXPECT_EQ(results[i].completion.height, expected.completion.height) << i;
    EXPECT_EQ(results[i].completion.orientation, expected.completion.orientation) << i;
    if (expected.completion.status == MEDIA_ENGINE_OK) {
      EXPECT_EQ(std::memcmp(results[i].pixels.data(), expected.pixels.data(), expected.pixels.size() * sizeof(float)),
                0)
          << i;
    }
  }
}

std::uint32_t injected(media_engine* engine, const std::string& fault) {
  for (std::uint32_t n = 0; n < hpu_sim::kFaultKinds; ++n) {
    if (hpu_sim::fault_name(static_cast<int>(n)) == fault)
      return hpu_sim::read_register(hpu_sim::device_of(engine), HPU_SIM_INJECTED + 4 * n);
  }
  ADD_FAILURE() << fault;
  return 0;
}

struct FaultCase {
  const char* name;  // of the injected fault
  const char* options;
  std::vector<media_engine_fault> found;  // each at least `times`
  std::uint32_t times;
};

// Time-outs are short where one is waited for, so that the test is quick; a machine so slow that a small picture takes
// longer sees more faults, not other bits.
const std::vector<FaultCase>& fault_cases() {
  static const std::vector<FaultCase> cases = {
      {"lost_completion",
       "timeout_ms=150 fault=lost_completion@3 fault=lost_completion@9",
       {MEDIA_ENGINE_FAULT_LOST_COMPLETION},
       2},
      {"duplicated_completion",
       "fault=duplicated_completion@2 fault=duplicated_completion@7",
       {MEDIA_ENGINE_FAULT_DUPLICATED_COMPLETION},
       2},
      {"late_completion",
       "timeout_ms=150 fault=late_completion@5",
       {MEDIA_ENGINE_FAULT_LOST_COMPLETION, MEDIA_ENGINE_FAULT_LATE_COMPLETION},
       1},
      // Some have a wrong bit, some a right checksum and a wrong number: each is found.
      {"corrupted_completion",
       "fault=corrupted_completion@1 fault=corrupted_completion@4 fault=corrupted_completion@8 "
       "fault=corrupted_completion@12 fault=corrupted_completion@16 fault=corrupted_completion@20",
       {MEDIA_ENGINE_FAULT_CORRUPTED_COMPLETION},
       6},
      {"corrupted_descriptor",
       "fault=corrupted_descriptor@4 fault=corrupted_descriptor@5",
       {MEDIA_ENGINE_FAULT_CORRUPTED_DESCRIPTOR},
       2},
      {"short_dma", "fault=short_dma@1 fault=short_dma@16", {MEDIA_ENGINE_FAULT_SHORT_TRANSFER}, 2},
      {"decode_error",
       "fault=decode_error@6 fault=decode_error@7 fault=decode_error@8",
       {MEDIA_ENGINE_FAULT_DECODE_ERROR},
       3},
      {"stalled_unit", "timeout_ms=150 fault=stalled_unit@4", {MEDIA_ENGINE_FAULT_STALLED_UNIT}, 1},
      {"queue_overrun", "fault=queue_overrun@6", {MEDIA_ENGINE_FAULT_QUEUE_OVERRUN}, 1},
      {"wrong_firmware",
       "fault=surprise_reset@10 fault=wrong_firmware@3",
       {MEDIA_ENGINE_FAULT_SURPRISE_RESET, MEDIA_ENGINE_FAULT_WRONG_FIRMWARE},
       1},
      {"surprise_reset", "fault=surprise_reset@2 fault=surprise_reset@11", {MEDIA_ENGINE_FAULT_SURPRISE_RESET}, 2},
      {"reset_storm", "fault=reset_storm@8", {MEDIA_ENGINE_FAULT_SURPRISE_RESET, MEDIA_ENGINE_FAULT_RESET_STORM}, 1},
      {"hung_reset",
       "timeout_ms=50 fault=hung_reset@5",
       {MEDIA_ENGINE_FAULT_SURPRISE_RESET, MEDIA_ENGINE_FAULT_HUNG_RESET},
       1},
      {"spurious_interrupt",
       "fault=spurious_interrupt@3 fault=spurious_interrupt@4",
       {MEDIA_ENGINE_FAULT_SPURIOUS_INTERRUPT},
       2},
      {"lost_doorbell", "fault=lost_doorbell@2", {MEDIA_ENGINE_FAULT_LOST_DOORBELL}, 1},
  };
  return cases;
}

// A reset comes twice before anything was heard in between, or it does not: the driver cannot tell which it was.
std::uint64_t found_of(const media_engine_statistics& counts, media_engine_fault fault) {
  const bool may_look_like_a_storm = fault == MEDIA_ENGINE_FAULT_SURPRISE_RESET;
  const std::size_t number = static_cast<std::size_t>(fault);
  if (number >= MEDIA_ENGINE_FAULTS) return 0;  // none is; the compiler cannot know
  return counts.faults[number] + (may_look_like_a_storm ? counts.faults[MEDIA_ENGINE_FAULT_RESET_STORM] : 0);
}

// A unit had no core for longer than the time-out; the reset that followed may have swallowed what was injected.
bool was_starved(const media_engine_statistics& counts, const FaultCase& fault) {
  const bool stalls = fault.name == std::string("stalled_unit");
  return counts.faults[MEDIA_ENGINE_FAULT_STALLED_UNIT] > (stalls ? fault.times : 0);
}

TEST(HpuSim, EachFaultIsInjectedFoundAndMendedWithoutChangingABit) {
  for (const FaultCase& fault : fault_cases()) {
    for (const std::uint32_t depth : {1U, 3U, 16U}) {
      SCOPED_TRACE(std::string(fault.name) + ", queue depth " + std::to_string(depth));
      EngineOnTest engine(config_of(media_engine_hpu_sim(), fault.options, depth));
      expect_hosts_bits(run_all(engine.get()));
      EXPECT_GE(injected(engine.get(), fault.name), fault.name == std::string("wrong_firmware") ? 1U : fault.times);
      const media_engine_statistics counts = media_engine_get_statistics(engine.get());
      if (!was_starved(counts, fault)) {
        for (const media_engine_fault found : fault.found) EXPECT_GE(found_of(counts, found), fault.times) << found;
      }
      EXPECT_EQ(counts.completed, kJobs);
      EXPECT_EQ(counts.device_errors, 0U);
      EXPECT_EQ(counts.in_flight, 0U);
    }
  }
}

TEST(HpuSim, AllFaultsTogetherChangeNoBit) {
  const char* const options =
      "timeout_ms=100 seed=5 fault=lost_completion:0.03 fault=duplicated_completion:0.1 fault=late_completion:0.03 "
      "fault=corrupted_completion:0.1 fault=corrupted_descriptor:0.1 fault=short_dma:0.1 fault=decode_error:0.1 "
      "fault=stalled_unit:0.02 fault=queue_overrun:0.05 fault=surprise_reset:0.05 fault=spurious_interrupt:0.1 "
      "fault=lost_doorbell:0.1";
  for (const char* const more : {" polling=0", " polling=1"}) {
    EngineOnTest engine(config_of(media_engine_hpu_sim(), (options + std::string(more)).c_str(), 8));
    expect_hosts_bits(run_all(engine.get()));
    EXPECT_GT(media_engine_get_statistics(engine.get()).retries, 0U);
  }
}

TEST(HpuSim, WithoutFaultsNoneIsFound) {
  for (const std::string options : {"", " polling=1", " rate=2000 latency_ms=1"}) {
    EngineOnTest engine(config_of(media_engine_hpu_sim(), ("timeout_ms=60000" + options).c_str()));
    expect_hosts_bits(run_all(engine.get()));
    const media_engine_statistics counts = media_engine_get_statistics(engine.get());
    for (std::uint32_t f = 0; f < MEDIA_ENGINE_FAULTS; ++f)
      EXPECT_EQ(counts.faults[f], 0U) << media_engine_fault_name(f);
    EXPECT_EQ(counts.retries, 0U);
    EXPECT_EQ(counts.device_resets, 0U);
    EXPECT_EQ(hpu_sim::read_register(hpu_sim::device_of(engine.get()), HPU_SIM_COUNTERS + 4 * HPU_SIM_COUNT_FETCHED),
              kJobs);
  }
}

TEST(HpuSim, ADeviceThatIsGoneSaysSoInEveryCallAndGivesItsJobsBack) {
  EngineOnTest engine(config_of(media_engine_hpu_sim(), "fault=device_gone@6"));
  std::vector<std::unique_ptr<Request>> jobs = requests(kJobs);
  std::size_t submitted = 0, completed = 0;
  media_engine_status status = MEDIA_ENGINE_OK;
  while (status == MEDIA_ENGINE_OK) {
    while (submitted < kJobs && media_engine_submit(engine.get(), &jobs[submitted]->job) == MEDIA_ENGINE_OK)
      ++submitted;
    media_engine_completion done = {};
    status = media_engine_wait(engine.get(), &done, kWaitNs);
    if (status == MEDIA_ENGINE_OK) ++completed;
  }
  EXPECT_EQ(status, MEDIA_ENGINE_DEVICE_GONE);
  EXPECT_LT(completed, 6U);
  media_engine_completion none = {};
  EXPECT_EQ(media_engine_submit(engine.get(), &jobs[29]->job), MEDIA_ENGINE_DEVICE_GONE);
  EXPECT_EQ(media_engine_poll(engine.get(), &none), MEDIA_ENGINE_DEVICE_GONE);
  EXPECT_EQ(media_engine_reset(engine.get()), MEDIA_ENGINE_DEVICE_GONE);
  jobs.clear();  // nothing writes there any more
  const media_engine_statistics counts = media_engine_get_statistics(engine.get());
  EXPECT_EQ(counts.faults[MEDIA_ENGINE_FAULT_DEVICE_GONE], 1U);
  EXPECT_EQ(counts.in_flight, 0U);
  EXPECT_EQ(counts.submitted, counts.completed + counts.reset_away);
}

TEST(HpuSim, AUnitThatFailsEveryPictureIsReportedForEachAfterAllRetries) {
  EngineOnTest engine(config_of(media_engine_hpu_sim(), "fault=decode_error:1"));
  const Request request(pictures()[0], MEDIA_ENGINE_TRAINING, kSide, false, 3);
  const media_engine_completion done = run_alone(engine.get(), request);
  EXPECT_EQ(status_of(done), MEDIA_ENGINE_DEVICE_FAILED);
  EXPECT_EQ(done.detail, static_cast<std::uint32_t>(MEDIA_ENGINE_FAULT_DECODE_ERROR));
  EXPECT_EQ(media_engine_get_statistics(engine.get()).device_errors, 1U);
}

TEST(HpuSim, ADeviceThatOnlyResetsIsGivenUp) {
  EngineOnTest engine(config_of(media_engine_hpu_sim(), "fault=surprise_reset:1"));
  const Request request(pictures()[0], MEDIA_ENGINE_TRAINING, kSide, false, 3);
  ASSERT_EQ(media_engine_submit(engine.get(), &request.job), MEDIA_ENGINE_OK);
  media_engine_completion done = {};
  EXPECT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_DEVICE_GONE);
}

media_engine_status status_at_open(const char* options) {
  media_engine_config config = config_of(media_engine_hpu_sim(), options);
  config.memory_bytes = media_engine_memory_needed(&config);
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(64, config.memory_bytes), std::free);
  config.memory = memory.get();
  media_engine* engine = nullptr;
  const media_engine_status status = media_engine_open(&engine, &config);
  EXPECT_EQ(engine == nullptr, status != MEDIA_ENGINE_OK);
  media_engine_close(engine);
  return status;
}

TEST(HpuSim, OpenRefusesAFirmwareThatTheDriverDoesNotKnow) {
  EXPECT_EQ(status_at_open("fault=wrong_firmware@1"), MEDIA_ENGINE_DEVICE_BAD_FIRMWARE);
  EXPECT_EQ(status_at_open("fault=wrong_firmware@2"), MEDIA_ENGINE_OK);
}

TEST(HpuSim, OptionsThatAreNotUnderstoodAreRefusedAndSaidWhy) {
  const media_engine_driver* const driver = media_engine_hpu_sim();
  for (const char* const good : {"rate=0", "rate=12.5", "latency_ms=3", "seed=18446744073709551615", "polling=1",
                                 "timeout_ms=10", "fault=lost_completion:0.01", "fault=short_dma@7"}) {
    EXPECT_EQ(media_engine_option_problem(driver, good), nullptr) << good;
    EXPECT_EQ(status_at_open(good), MEDIA_ENGINE_OK) << good;
  }
  for (const char* const bad : {"rate", "rate=", "rate=-1", "rate=fast", "speed=3", "polling=2", "timeout_ms=0",
                                "seed=-1", "fault=", "fault=none:1", "fault=short_dma", "fault=short_dma:1.5",
                                "fault=short_dma:", "fault=short_dma@0", "fault=short_dma@x"}) {
    EXPECT_NE(media_engine_option_problem(driver, bad), nullptr) << bad;
    EXPECT_EQ(status_at_open(bad), MEDIA_ENGINE_INVALID) << bad;
  }
  const std::string names = media_engine_option_problem(driver, "fault=none:1");
  for (int n = 0; n < hpu_sim::kFaultKinds; ++n) EXPECT_NE(names.find(hpu_sim::fault_name(n)), std::string::npos) << n;
  EXPECT_NE(media_engine_option_problem(media_engine_host(), "rate=1"), nullptr);
}

TEST(HpuSim, AUnitKeepsItsRateAndItsLatency) {
  EngineOnTest engine(config_of(media_engine_hpu_sim(), "rate=100 latency_ms=30", 16, 1));
  const auto begin = std::chrono::steady_clock::now();
  run_all(engine.get(), 10);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken.count(), 0.030 + 10 * 0.010 - 0.001);
}

TEST(HpuSim, CloseResetAndCancelWithWorkInFlightUnderFaults) {
  const char* const options = "timeout_ms=50 fault=stalled_unit:0.3 fault=surprise_reset:0.2 fault=late_completion:0.2";
  for (const int jobs_in : {1, 3, 8}) {
    EngineOnTest engine(config_of(media_engine_hpu_sim(), options, 8));
    for (int round = 0; round < 4; ++round) {
      std::vector<std::unique_ptr<Request>> jobs = requests(static_cast<std::size_t>(jobs_in));
      for (const auto& job : jobs) ASSERT_EQ(media_engine_submit(engine.get(), &job->job), MEDIA_ENGINE_OK);
      media_engine_completion done = {};
      if (round > 0) {
        ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
      }
      const media_engine_status cancelled = media_engine_cancel(engine.get(), 0);
      EXPECT_TRUE(cancelled == MEDIA_ENGINE_OK || cancelled == MEDIA_ENGINE_BUSY ||
                  cancelled == MEDIA_ENGINE_NOT_FOUND);
      ASSERT_EQ(media_engine_reset(engine.get()), MEDIA_ENGINE_OK);
      const media_engine_statistics counts = media_engine_get_statistics(engine.get());
      EXPECT_EQ(counts.in_flight, 0U);
      EXPECT_EQ(counts.submitted, counts.completed + counts.cancelled + counts.reset_away);
    }
    std::vector<std::unique_ptr<Request>> jobs = requests(static_cast<std::size_t>(jobs_in));
    for (const auto& job : jobs) ASSERT_EQ(media_engine_submit(engine.get(), &job->job), MEDIA_ENGINE_OK);
    engine.close();
  }
}

}  // namespace
}  // namespace bascule::test::test_hpu_sim
