// SPDX-License-Identifier: Apache-2.0
// The engine that a test is linked with, opened in memory of its own, and pictures sent through it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "firmware_shims/media_engine.h"

namespace bascule::test {

using Bytes = std::vector<std::uint8_t>;

constexpr double kMean[3] = {0.48145466, 0.4578275, 0.40821073};
constexpr double kStd[3] = {0.26862954, 0.26130258, 0.27577711};
constexpr std::uint64_t kWaitNs = 60'000'000'000u;

inline Bytes read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Opened on construction; closed, if still open, at the end. Bytes behind its memory are watched.
class EngineOnTest {
 public:
  explicit EngineOnTest(media_engine_config config = media_engine_default_config(media_engine_builtin())) {
    config.memory_bytes = media_engine_memory_needed(&config);
    EXPECT_GT(config.memory_bytes, 0u);
    memory_ = static_cast<std::uint8_t*>(std::aligned_alloc(64, (config.memory_bytes + kWatched + 63) / 64 * 64));
    for (std::size_t i = 0; i < kWatched; ++i) memory_[config.memory_bytes + i] = kPattern;
    config.memory = memory_;
    config_ = config;
    EXPECT_EQ(media_engine_open(&engine_, &config), MEDIA_ENGINE_OK);
  }
  ~EngineOnTest() {
    close();
    std::free(memory_);
  }
  EngineOnTest(const EngineOnTest&) = delete;
  EngineOnTest& operator=(const EngineOnTest&) = delete;

  media_engine* get() { return engine_; }
  const media_engine_config& config() const { return config_; }
  void close() {
    media_engine_close(engine_);
    engine_ = nullptr;
    for (std::size_t i = 0; i < kWatched; ++i)
      ASSERT_EQ(memory_[config_.memory_bytes + i], kPattern) << "beyond the budget";
  }

 private:
  static constexpr std::size_t kWatched = 4096;
  static constexpr std::uint8_t kPattern = 0xA5;

  media_engine_config config_ = {};
  std::uint8_t* memory_ = nullptr;
  media_engine* engine_ = nullptr;
};

// A random crop of its own for each number.
inline void make_crop(media_engine_job* job, std::uint32_t number) {
  job->augment = MEDIA_ENGINE_CROP_FLIP;
  job->random_counter[0] = number;
  job->crop_scale[0] = 0.08;
  job->crop_scale[1] = 1.0;
  job->crop_ratio[0] = 0.75;
  job->crop_ratio[1] = 1.5;
}

// A job and its destination, which must live as long.
struct Request {
  std::vector<float> pixels;
  media_engine_job job = {};

  Request(const Bytes& encoded, media_engine_preparation preparation, std::uint32_t side, bool raw,
          std::uint64_t sequence = 0)
      : pixels(std::size_t{3} * side * side) {
    job.sequence = sequence;
    job.encoded = encoded.data();
    job.encoded_bytes = encoded.size();
    job.pixels = pixels.data();
    job.side = side;
    job.preparation = static_cast<std::uint32_t>(preparation);
    job.element = MEDIA_ENGINE_FLOAT32;
    job.raw = raw ? 1 : 0;
    job.shortest_edge = side;
    job.size_divisor = 32;
    job.levels = 255.0;
    for (int c = 0; c < 3; ++c) {
      job.mean[c] = kMean[c];
      job.std[c] = kStd[c];
    }
  }
};

// One job through an otherwise idle engine.
inline media_engine_completion run_alone(media_engine* engine, const Request& request) {
  media_engine_completion completion = {};
  EXPECT_EQ(media_engine_submit(engine, &request.job), MEDIA_ENGINE_OK);
  EXPECT_EQ(media_engine_wait(engine, &completion, kWaitNs), MEDIA_ENGINE_OK);
  EXPECT_EQ(completion.sequence, request.job.sequence);
  return completion;
}

inline media_engine_status status_of(const media_engine_completion& completion) {
  return static_cast<media_engine_status>(completion.status);
}

}  // namespace bascule::test
