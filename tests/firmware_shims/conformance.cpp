// SPDX-License-Identifier: Apache-2.0
// Tests that every media engine must pass: linked once with each. Nothing here knows which one it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/firmware_shims/encode_jpeg.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/firmware_shims/malloc_counter.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {
namespace {

constexpr std::uint32_t kSide = 64;

Bytes picture(const char* name) { return read_bytes(reference_dir() + "/images/jpeg/" + name); }

std::vector<Bytes> webp_pictures() {
  std::vector<Bytes> pictures;
  for (const char* name :
       {"lossy_90.webp", "lossless_alpha.webp", "lossy_alpha_30.webp", "bad_few_pixels_lossless.webp"})
    pictures.push_back(read_bytes(std::string(BASCULE_TEST_DATA "/images/webp/") + name));
  return pictures;
}

// Pictures of all kinds, good and bad.
std::vector<Bytes> mixed_pictures() {
  std::vector<Bytes> pictures;
  for (const char* name :
       {"base_420.jpg", "prog_444.jpg", "grey.jpg", "cmyk_adobe.jpg", "exif_o6_long.jpg", "bad_trunc_50.jpg",
        "size_287x289.jpg", "bad_flip_hit_marker.jpg", "photo_427x640.jpg", "bad_really_png.jpg",
        "scans_noninterleaved.jpg", "size_1x37_420.jpg", "arith_420.jpg", "bad_sof_missing.jpg"}) {
    pictures.push_back(picture(name));
  }
  for (const char* name :
       {"rgba_16_adam7.png", "palette_2.png", "exif_6.png", "xmp_packed_behind_7.png", "bad_few_rows.png"})
    pictures.push_back(read_bytes(std::string(BASCULE_TEST_DATA "/images/png/") + name));
  for (const Bytes& webp : webp_pictures()) pictures.push_back(webp);
  pictures.push_back({});
  return pictures;
}

media_engine_config config_of(std::uint32_t queue_depth, std::uint32_t units) {
  media_engine_config config = media_engine_default_config(media_engine_builtin());
  config.queue_depth = queue_depth;
  config.units = units;
  config.max_side = kSide;
  return config;
}

media_engine_preparation preparation_of(std::size_t i) {
  if (i % 2 == 0) return MEDIA_ENGINE_TRAINING;
  return i % 4 == 1 ? MEDIA_ENGINE_PROCESSOR : MEDIA_ENGINE_SQUARE_PROCESSOR;
}

// Every third job of training has a random crop, every other filter.
Request request_for(const Bytes& encoded, std::size_t i, std::uint64_t sequence) {
  Request request(encoded, preparation_of(i), kSide, false, sequence);
  request.job.interpolation = i % 4 == 0 || i % 8 == 3 ? MEDIA_ENGINE_BILINEAR : MEDIA_ENGINE_BICUBIC;
  if (i % 3 == 0) make_crop(&request.job, static_cast<std::uint32_t>(i));
  return request;
}

struct Result {
  media_engine_completion completion;
  std::vector<float> pixels;
};

// Each picture alone in an engine of its own: what must come out under any load.
std::vector<Result> results_alone(const std::vector<Bytes>& pictures) {
  EngineOnTest engine(config_of(1, 1));
  std::vector<Result> results;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const Request request = request_for(pictures[i], i, i);
    const media_engine_completion completion = run_alone(engine.get(), request);
    results.push_back({completion, request.pixels});
  }
  return results;
}

void expect_same(const Result& alone, const media_engine_completion& done, const Request& request) {
  EXPECT_EQ(done.status, alone.completion.status);
  EXPECT_EQ(done.detail, alone.completion.detail);
  EXPECT_EQ(done.width, alone.completion.width);
  EXPECT_EQ(done.height, alone.completion.height);
  EXPECT_EQ(done.orientation, alone.completion.orientation);
  if (status_of(done) == MEDIA_ENGINE_OK) {
    EXPECT_EQ(std::memcmp(request.pixels.data(), alone.pixels.data(), alone.pixels.size() * sizeof(float)), 0)
        << done.sequence;
  }
}

std::vector<std::unique_ptr<Request>> requests_for(const std::vector<Bytes>& pictures, std::size_t count) {
  std::vector<std::unique_ptr<Request>> requests;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t p = i % pictures.size();
    requests.push_back(std::make_unique<Request>(request_for(pictures[p], p, i)));
  }
  return requests;
}

// The pictures must outlive the requests.
std::vector<std::unique_ptr<Request>> requests_for(std::vector<Bytes>&&, std::size_t) = delete;

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

TEST(Conformance, ASequenceMayBeInOnlyOnce) {
  const Bytes encoded = picture("base_420.jpg");
  Request first(encoded, MEDIA_ENGINE_TRAINING, kSide, false, 7);
  Request second(encoded, MEDIA_ENGINE_TRAINING, kSide, false, 7);
  EngineOnTest engine(config_of(4, 1));  // closed before what it may still be reading
  ASSERT_EQ(media_engine_submit(engine.get(), &first.job), MEDIA_ENGINE_OK);
  EXPECT_EQ(media_engine_submit(engine.get(), &second.job), MEDIA_ENGINE_INVALID);
  media_engine_completion done;
  ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
  EXPECT_EQ(media_engine_submit(engine.get(), &second.job), MEDIA_ENGINE_OK) << "free again";
}

TEST(Conformance, AFullQueueSaysSoAndTakesMoreAfterACompletion) {
  constexpr std::uint32_t kDepth = 3;
  const std::vector<Bytes> pictures = {picture("base_420.jpg")};
  std::vector<std::unique_ptr<Request>> requests = requests_for(pictures, kDepth + 1);
  EngineOnTest engine(config_of(kDepth, 1));  // closed before what it may still be reading
  for (std::uint32_t i = 0; i < kDepth; ++i)
    ASSERT_EQ(media_engine_submit(engine.get(), &requests[i]->job), MEDIA_ENGINE_OK);
  EXPECT_EQ(media_engine_submit(engine.get(), &requests[kDepth]->job), MEDIA_ENGINE_FULL);
  EXPECT_EQ(media_engine_get_statistics(engine.get()).refused_full, 1u);
  media_engine_completion done;
  ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
  EXPECT_EQ(media_engine_submit(engine.get(), &requests[kDepth]->job), MEDIA_ENGINE_OK);
}

TEST(Conformance, AnIdleEngineIsEmptyAtOnce) {
  EngineOnTest engine(config_of(2, 1));
  media_engine_completion done;
  EXPECT_EQ(media_engine_poll(engine.get(), &done), MEDIA_ENGINE_EMPTY);
  EXPECT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_EMPTY);
}

TEST(Conformance, EveryJobComesBackOnceWithWhatItGivesAlone) {
  const std::vector<Bytes> pictures = mixed_pictures();
  const std::vector<Result> alone = results_alone(pictures);
  for (const std::uint32_t depth : {1u, 3u, 16u}) {
    EngineOnTest engine(config_of(depth, 2));
    std::vector<std::unique_ptr<Request>> requests = requests_for(pictures, 4 * pictures.size());
    std::vector<int> returned(requests.size(), 0);
    std::size_t submitted = 0;
    for (std::size_t completed = 0; completed < requests.size();) {
      while (submitted < requests.size() &&
             media_engine_submit(engine.get(), &requests[submitted]->job) == MEDIA_ENGINE_OK)
        ++submitted;
      media_engine_completion done;
      ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
      ASSERT_LT(done.sequence, submitted);
      ++returned[done.sequence];
      expect_same(alone[done.sequence % pictures.size()], done, *requests[done.sequence]);
      ++completed;
    }
    EXPECT_EQ(std::count(returned.begin(), returned.end(), 1), static_cast<std::ptrdiff_t>(requests.size()));
    const media_engine_statistics counts = media_engine_get_statistics(engine.get());
    EXPECT_EQ(counts.submitted, requests.size());
    EXPECT_EQ(counts.completed, requests.size());
    EXPECT_EQ(counts.in_flight, 0u);
    EXPECT_EQ(counts.device_errors, 0u);
    EXPECT_GT(counts.bad_pictures, 0u);
  }
}

// Threads share an engine; each picture comes back `rounds` times, with what it gives alone.
void expect_same_in_threads(const std::vector<Bytes>& pictures, std::size_t rounds) {
  const std::vector<Result> alone = results_alone(pictures);
  EngineOnTest engine(config_of(5, 2));
  std::vector<std::unique_ptr<Request>> requests = requests_for(pictures, rounds * pictures.size());
  std::vector<media_engine_completion> completions(requests.size());
  std::vector<std::atomic<int>> returned(requests.size());
  std::atomic<std::size_t> next{0};
  const auto submit_one_wait_for_one = [&] {
    for (;;) {
      const std::size_t mine = next++;
      if (mine >= requests.size()) return;
      while (media_engine_submit(engine.get(), &requests[mine]->job) == MEDIA_ENGINE_FULL) std::this_thread::yield();
      media_engine_completion done;
      ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
      completions[done.sequence] = done;
      ++returned[done.sequence];
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(submit_one_wait_for_one);
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(returned[i], 1) << i;
    expect_same(alone[i % pictures.size()], completions[i], *requests[i]);
  }
}

TEST(Conformance, AnyNumberOfThreadsMayShareAnEngine) { expect_same_in_threads(mixed_pictures(), 8); }

// libwebp's memory is found by the thread, so it must be this kind of picture that several threads decode at a time.
TEST(Conformance, AnyNumberOfThreadsMayDecodeWebPs) { expect_same_in_threads(webp_pictures(), 600); }

TEST(Conformance, ACancelledJobNeverCompletes) {
  EngineOnTest engine(config_of(8, 1));
  const std::vector<Bytes> pictures = {picture("base_420.jpg")};
  std::vector<std::unique_ptr<Request>> requests = requests_for(pictures, 8);
  for (auto& request : requests) ASSERT_EQ(media_engine_submit(engine.get(), &request->job), MEDIA_ENGINE_OK);
  EXPECT_EQ(media_engine_cancel(engine.get(), 99), MEDIA_ENGINE_NOT_FOUND);
  std::vector<bool> cancelled(8, false);
  for (const std::uint64_t sequence : {1u, 4u, 7u}) {
    const media_engine_status status = media_engine_cancel(engine.get(), sequence);
    ASSERT_TRUE(status == MEDIA_ENGINE_OK || status == MEDIA_ENGINE_BUSY);
    cancelled[sequence] = status == MEDIA_ENGINE_OK;
    if (cancelled[sequence]) {
      EXPECT_EQ(media_engine_cancel(engine.get(), sequence), MEDIA_ENGINE_NOT_FOUND) << "twice";
    }
  }
  const std::size_t expected = 8 - static_cast<std::size_t>(std::count(cancelled.begin(), cancelled.end(), true));
  for (std::size_t i = 0; i < expected; ++i) {
    media_engine_completion done;
    ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
    EXPECT_FALSE(cancelled[done.sequence]);
  }
  media_engine_completion done;
  EXPECT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_EMPTY);
  EXPECT_EQ(media_engine_get_statistics(engine.get()).cancelled, 8 - expected);
}

TEST(Conformance, ResetGivesEveryJobBackAndTheEngineGoesOn) {
  const std::vector<Bytes> pictures = mixed_pictures();
  const std::vector<Result> alone = results_alone(pictures);
  EngineOnTest engine(config_of(8, 1));
  std::vector<std::unique_ptr<Request>> requests = requests_for(pictures, 8);
  for (auto& request : requests) ASSERT_EQ(media_engine_submit(engine.get(), &request->job), MEDIA_ENGINE_OK);
  ASSERT_EQ(media_engine_reset(engine.get()), MEDIA_ENGINE_OK);
  for (auto& request : requests) std::fill(request->pixels.begin(), request->pixels.end(), -1.0f);
  media_engine_completion done;
  EXPECT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_EMPTY);
  const media_engine_statistics counts = media_engine_get_statistics(engine.get());
  EXPECT_EQ(counts.in_flight, 0u);
  EXPECT_EQ(counts.submitted, counts.completed + counts.reset_away);
  for (auto& request : requests) {
    EXPECT_EQ(std::count(request->pixels.begin(), request->pixels.end(), -1.0f),
              static_cast<std::ptrdiff_t>(request->pixels.size()));
  }
  for (std::size_t i = 0; i < requests.size(); ++i)
    expect_same(alone[i], run_alone(engine.get(), *requests[i]), *requests[i]);
}

TEST(Conformance, ResetInterruptsWhatOtherThreadsWaitFor) {
  const std::vector<Bytes> large = {encode_jpeg(3000, 2000)};
  EngineOnTest engine(config_of(8, 2));
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<Request>> requests = requests_for(large, 4);
    for (auto& request : requests) ASSERT_EQ(media_engine_submit(engine.get(), &request->job), MEDIA_ENGINE_OK);
    std::atomic<int> returned{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        media_engine_completion done;
        while (media_engine_wait(engine.get(), &done, kWaitNs) == MEDIA_ENGINE_OK) ++returned;
      });
    }
    while (media_engine_get_statistics(engine.get()).in_flight == 4 && round % 2 == 1) std::this_thread::yield();
    EXPECT_EQ(media_engine_reset(engine.get()), MEDIA_ENGINE_OK);
    requests.clear();  // nothing may write there any more
    for (std::thread& thread : threads) thread.join();
    const media_engine_statistics counts = media_engine_get_statistics(engine.get());
    EXPECT_EQ(counts.in_flight, 0u);
    EXPECT_EQ(counts.submitted, counts.completed + counts.reset_away);
  }
}

TEST(Conformance, CloseMayComeWithWorkInFlight) {
  const std::vector<Bytes> pictures = mixed_pictures();
  std::vector<std::unique_ptr<Request>> requests = requests_for(pictures, 8);
  EngineOnTest engine(config_of(8, 2));
  for (auto& request : requests) ASSERT_EQ(media_engine_submit(engine.get(), &request->job), MEDIA_ENGINE_OK);
  media_engine_completion done;
  ASSERT_EQ(media_engine_wait(engine.get(), &done, kWaitNs), MEDIA_ENGINE_OK);
  engine.close();
  media_engine_close(nullptr);
}

TEST(Conformance, NothingIsAllocatedAfterOpen) {
  if (!mallocs_are_counted()) GTEST_SKIP() << "a sanitizer has the heap";
  const std::vector<Bytes> pictures = mixed_pictures();
  const Bytes progressive = encode_jpeg(1500, 1000, {true, false});
  const Bytes large = encode_jpeg(3000, 2000);
  std::vector<Bytes> all = pictures;
  all.push_back(progressive);
  all.push_back(large);
  EngineOnTest engine(config_of(4, 2));
  std::vector<std::unique_ptr<Request>> requests = requests_for(all, 2 * all.size());
  const std::uint64_t before = malloc_calls();
  int good = 0;
  for (auto& request : requests) {
    media_engine_completion done;
    if (media_engine_submit(engine.get(), &request->job) != MEDIA_ENGINE_OK) continue;
    if (media_engine_wait(engine.get(), &done, kWaitNs) == MEDIA_ENGINE_OK && done.status == MEDIA_ENGINE_OK) ++good;
  }
  media_engine_submit(engine.get(), &requests[0]->job);
  media_engine_cancel(engine.get(), 0);
  media_engine_submit(engine.get(), &requests[0]->job);
  media_engine_reset(engine.get());
  media_engine_get_statistics(engine.get());
  EXPECT_EQ(malloc_calls(), before);
  EXPECT_GT(good, 10);
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
