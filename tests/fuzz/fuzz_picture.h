// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of pictures: any bytes are a picture or a bad picture to the host engine, never a bad
// device; the last byte chooses the preparation.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "firmware_shims/media_engine.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule::fuzz {

constexpr std::uint32_t kSide = 64;

inline media_engine* open_engine() {
  media_engine_config config = media_engine_default_config(media_engine_host());
  config.max_side = kSide;
  config.max_pixels = 4'000'000;
  config.max_scan_megapixels = 20;
  config.memory_bytes = media_engine_memory_needed(&config);
  config.memory = std::aligned_alloc(64, (config.memory_bytes + 63) / 64 * 64);
  media_engine* engine = nullptr;
  require(media_engine_open(&engine, &config) == MEDIA_ENGINE_OK);
  return engine;
}

inline void decode_anything(const std::uint8_t* data, std::size_t size) {
  static media_engine* const engine = open_engine();
  static std::vector<float> pixels(3 * kSide * kSide);
  media_engine_job job = {};
  job.encoded = data;
  job.encoded_bytes = size;
  job.pixels = pixels.data();
  job.side = kSide;
  job.preparation = MEDIA_ENGINE_TRAINING + (size > 0 ? data[size - 1] % 3u : 0u);
  job.element = MEDIA_ENGINE_FLOAT32;
  job.shortest_edge = size % 3 == 0 ? 0 : kSide;
  job.size_divisor = size % 5 == 0 ? 1 : 32;
  job.levels = 255.0;
  for (int channel = 0; channel < 3; ++channel) job.mean[channel] = job.std[channel] = 0.5;
  require(media_engine_submit(engine, &job) == MEDIA_ENGINE_OK);
  media_engine_completion completion = {};
  require(media_engine_wait(engine, &completion, 10'000'000'000u) == MEDIA_ENGINE_OK);
  const auto status = static_cast<media_engine_status>(completion.status);
  require(status == MEDIA_ENGINE_OK || media_engine_is_bad_picture(status) != 0);
}

}  // namespace bascule::fuzz
