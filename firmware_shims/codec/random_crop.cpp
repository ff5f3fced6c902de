// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/random_crop.h"

#include <algorithm>
#include <cmath>

#include "src/base/elementary.h"
#include "src/base/philox.h"

namespace bascule::codec {
namespace {

constexpr std::uint32_t kTries = 10;
constexpr std::uint32_t kFlipIndex = 16;

PhiloxBlock draw(const media_engine_job& job, std::uint32_t index) noexcept {
  const std::uint32_t* const at = job.random_counter;
  return philox4x32({{index, at[0], at[1], at[2]}}, {{job.random_key[0], job.random_key[1]}});
}

double between(double low, double high, std::uint32_t word) noexcept { return low + (high - low) * uniform(word); }

std::int64_t rounded(double value) noexcept { return static_cast<std::int64_t>(std::nearbyint(value)); }

// One of 0 .. free, free being what the box leaves of a side.
std::int64_t placed(std::uint32_t word, std::int64_t free) noexcept {
  return bounded(word, static_cast<std::uint32_t>(free + 1));
}

CropBox centred(std::int64_t picture_width, std::int64_t picture_height, std::int64_t width,
                std::int64_t height) noexcept {
  return {(picture_width - width) / 2, (picture_height - height) / 2, width, height};
}

}  // namespace

CropBox random_crop(const media_engine_job& job, std::int64_t width, std::int64_t height) noexcept {
  const double w = static_cast<double>(width), h = static_cast<double>(height);
  const double log_least = fixed_log(job.crop_ratio[0]), log_most = fixed_log(job.crop_ratio[1]);
  for (std::uint32_t index = 0; index < kTries; ++index) {
    const PhiloxBlock random = draw(job, index);
    const double area = w * h * between(job.crop_scale[0], job.crop_scale[1], random.word[0]);
    const double ratio = fixed_exp(between(log_least, log_most, random.word[1]));
    const std::int64_t crop_width = rounded(std::sqrt(area * ratio)), crop_height = rounded(std::sqrt(area / ratio));
    if (crop_width < 1 || crop_width > width || crop_height < 1 || crop_height > height) continue;
    return {placed(random.word[3], width - crop_width), placed(random.word[2], height - crop_height), crop_width,
            crop_height};
  }
  const auto within = [](double side, std::int64_t most) { return std::clamp<std::int64_t>(rounded(side), 1, most); };
  if (w / h < job.crop_ratio[0]) return centred(width, height, width, within(w / job.crop_ratio[0], height));
  if (w / h > job.crop_ratio[1]) return centred(width, height, within(h * job.crop_ratio[1], width), height);
  return {0, 0, width, height};
}

bool random_flip(const media_engine_job& job) noexcept { return (draw(job, kFlipIndex).word[0] & 1U) != 0; }

}  // namespace bascule::codec
