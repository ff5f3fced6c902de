// SPDX-License-Identifier: Apache-2.0
// Tests that every media engine must pass, of what it does under load: pictures give what they give alone, and no job
// is lost. Linked once with each engine, as conformance_rules.cpp is; nothing here knows which one it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/firmware_shims/conformance_engine.h"
#include "tests/firmware_shims/encode_jpeg.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/firmware_shims/malloc_counter.h"

namespace bascule::test {
namespace {

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

}  // namespace
}  // namespace bascule::test
