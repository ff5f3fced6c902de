// SPDX-License-Identifier: Apache-2.0
#include "src/loader/media.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "src/base/error.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr int kDetailShift = 20;  // above the status and the marks of worker.h
// In place of a detail a size, which side is longer, and a limit below the marks. The shorter side of a picture within
// kPillowLimit always has room; the longer one has, but for a PNG of more than kMostLonger.
constexpr int kLimitShift = kReasonStatusBits, kShorterBits = 14;
constexpr std::uint32_t kMostElongated = 0xffu, kMostShorter = 0x3fffu, kMostLonger = 0x1ffffu, kIsWide = 0x80000000u;
constexpr std::uint32_t kFormatDetails = MEDIA_ENGINE_DETAIL_PNG | MEDIA_ENGINE_DETAIL_WEBP;
constexpr std::int64_t kPillowLimit = 178956970;  // pixels; PIL.Image: 2 * MAX_IMAGE_PIXELS

constexpr std::uint32_t kCropUse = 0x63726f70u;  // a key of its own among those derived from the run's seed

[[noreturn]] void refuse_media(const std::string& key, const std::string& what, const std::string& what_to_do = "") {
  throw Error{ErrorKind::kSettings, key, what, what_to_do};
}

// One line, without allocating.
void warn_of_fallback(media_engine_status why) {
  char line[256];
  const int length =
      std::snprintf(line, sizeof line, "bascule: warning: media engine: %s; the host engine takes over\n",
                    media_engine_status_text(why));
  if (length > 0) (void)!::write(STDERR_FILENO, line, static_cast<std::size_t>(length));
}

void check_against(const media_engine_capabilities& can, const MediaSettings& settings) {
  const std::string engine = "the media engine \"" + std::string(can.name) + "\"";
  if (settings.queue_depth < 1 || settings.queue_depth > can.max_queue_depth) {
    refuse_media("media_engine.queue_depth", std::to_string(settings.queue_depth) + ": " + engine +
                                                 " accepts at least 1 and at most " +
                                                 count_of(can.max_queue_depth, "picture"));
  }
  if (can.works_in_poll != 0 && settings.polling_threads > can.max_units) {
    refuse_media("data.dataloader_num_workers", std::to_string(settings.polling_threads) + ": " + engine +
                                                    " serves at most " + count_of(can.max_units, "thread"));
  }
  if (can.works_in_poll == 0 && settings.device_units > can.max_units) {
    refuse_media("media_engine.simulation.units", std::to_string(settings.device_units) + ": " + engine +
                                                      " has at most " + count_of(can.max_units, "unit"));
  }
  if (settings.image_side > can.max_side) {
    refuse_media("image_size", std::to_string(settings.image_side) + ": " + engine + " makes at most " +
                                   std::to_string(can.max_side) + " pixels a side");
  }
}

}  // namespace

std::int64_t picture_reason(const media_engine_completion& completion) noexcept {
  const std::int64_t status = completion.status;
  const std::uint32_t detail = completion.detail;
  if (status == MEDIA_ENGINE_PICTURE_TOO_ELONGATED) {
    const auto [shorter, longer] = std::minmax(completion.width, completion.height);
    const std::uint32_t limit = std::min(detail & ~kFormatDetails, kMostElongated);
    const std::uint32_t size = (completion.width > completion.height ? kIsWide : 0) |
                               std::min(longer, kMostLonger) << kShorterBits | std::min(shorter, kMostShorter);
    return status | std::int64_t{limit} << kLimitShift | std::int64_t{size} << kDetailShift;
  }
  const bool says_more = status == MEDIA_ENGINE_PICTURE_OTHER_FORMAT || (detail & kFormatDetails) != 0;
  return status | (says_more ? std::int64_t{detail} << kDetailShift : 0);
}

std::string picture_reason_text(std::int64_t reason) {
  const std::int64_t status = status_of_reason(reason);
  const auto detail = static_cast<std::uint32_t>(reason >> kDetailShift);
  const auto limit = static_cast<std::uint32_t>(reason >> kLimitShift) & kMostElongated;
  if (status == MEDIA_ENGINE_PICTURE_TOO_ELONGATED && limit > 0) {
    const std::string shorter = std::to_string(detail & kMostShorter);
    const std::uint32_t pixels = detail >> kShorterBits & kMostLonger;
    const std::string longer = std::to_string(pixels) + (pixels == kMostLonger ? " or more" : "");
    const bool is_wide = (detail & kIsWide) != 0;
    return "is " + (is_wide ? longer : shorter) + " x " + (is_wide ? shorter : longer) +
           " pixels, which is too elongated: the longer side may be at most " + std::to_string(limit) +
           " times the shorter one";
  }
  return media_engine_picture_text(static_cast<media_engine_status>(status), detail);
}

std::uint32_t max_pixels(std::int64_t megapixels) {
  return static_cast<std::uint32_t>(std::min((megapixels + 1) * 1000000 - 1, kPillowLimit));
}

media_engine_config media_config(const MediaSettings& settings) {
  const media_engine_capabilities can = media_engine_query(settings.driver);
  check_against(can, settings);
  media_engine_config config = media_engine_default_config(settings.driver);
  config.queue_depth = static_cast<std::uint32_t>(settings.queue_depth);
  const bool has_device = can.works_in_poll == 0;
  config.units = static_cast<std::uint32_t>(has_device ? settings.device_units : settings.polling_threads);
  config.options = settings.options.empty() ? nullptr : settings.options.c_str();
  if (has_device) {
    config.host_units = static_cast<std::uint32_t>(settings.polling_threads);
    config.fallback = settings.fallback ? 1 : 0;
  }
  config.on_fallback = warn_of_fallback;
  config.max_side = static_cast<std::uint32_t>(settings.image_side);
  config.max_pixels = settings.max_pixels;
  config.picture_bytes = settings.memory_bytes / 2 / kMebibyte * kMebibyte;
  config.scale_in_decoder = settings.scale_in_decoder ? 1 : 0;
  const std::size_t needed = media_engine_memory_needed(&config);
  if (config.picture_bytes == 0 || needed == 0 || needed > settings.memory_bytes) {
    const std::size_t least = std::max(divide_up(needed, kMebibyte), std::size_t{2});
    refuse_media("media_engine.memory_mib",
                 std::to_string(settings.memory_bytes / kMebibyte) + ": half is reserved for one large picture; with " +
                     std::to_string(config.units) + " pictures at a time it must be at least " + std::to_string(least),
                 has_device ? "increase it, or use fewer units" : "increase it, or lower data.dataloader_num_workers");
  }
  return config;
}

void add_random_crop(media_engine_job* job, const RandomCrops& crops, std::uint64_t seed, std::int64_t epoch,
                     std::int64_t row) noexcept {
  if (crops.augment == Augment::kNone) return;
  job->augment = MEDIA_ENGINE_CROP_FLIP;
  const PhiloxKey key = derive_key(seed, kCropUse);
  std::copy(std::begin(key.word), std::end(key.word), job->random_key);
  const PhiloxCounter counter = random_coordinates(epoch, row, 0);
  std::copy(std::begin(counter.word) + 1, std::end(counter.word), job->random_counter);
  job->crop_scale[0] = crops.scale.least;
  job->crop_scale[1] = crops.scale.most;
  job->crop_ratio[0] = crops.ratio.least;
  job->crop_ratio[1] = crops.ratio.most;
}

Media::Media(const MediaSettings& settings, Span<std::byte> memory) {
  media_engine_config config = media_config(settings);
  config.memory = memory.data();
  config.memory_bytes = memory.size();
  const media_engine_status status = media_engine_open(&engine_, &config);
  if (status != MEDIA_ENGINE_OK) {
    const bool can_fall_back = media_engine_is_bad_device(status) != 0 && !settings.fallback;
    throw Error{ErrorKind::kData, "media engine \"" + std::string(media_engine_query(settings.driver).name) + "\"",
                media_engine_status_text(status),
                can_fall_back ? "media_engine.fallback = true continues without it" : ""};
  }
  job_form_.side = config.max_side;
  const ProcessorRules& processor = settings.processor;
  const bool trains = settings.preprocessing == Preprocessing::kTraining;
  job_form_.preparation = trains                    ? MEDIA_ENGINE_TRAINING
                          : processor.makes_squares ? MEDIA_ENGINE_SQUARE_PROCESSOR
                                                    : MEDIA_ENGINE_PROCESSOR;
  job_form_.element = MEDIA_ENGINE_FLOAT32;
  std::copy(settings.mean, settings.mean + 3, job_form_.mean);
  std::copy(settings.std, settings.std + 3, job_form_.std);
  const Interpolation interpolation = trains ? settings.interpolation : processor.interpolation;
  job_form_.interpolation = interpolation == Interpolation::kBilinear ? MEDIA_ENGINE_BILINEAR : MEDIA_ENGINE_BICUBIC;
  const std::int64_t edge = processor.shortest_edge > 0 ? processor.shortest_edge : settings.image_side;
  if (trains) {
    const double side = static_cast<double>(settings.image_side);
    job_form_.shortest_edge = static_cast<std::uint32_t>(std::floor(side / settings.centre_crop_ratio));
  } else if (processor.does_resize) {
    job_form_.shortest_edge = static_cast<std::uint32_t>(edge);
  }
  job_form_.size_divisor = static_cast<std::uint32_t>(processor.size_divisor);
  job_form_.levels = processor.levels;
}

Media::~Media() { media_engine_close(engine_); }

}  // namespace bascule
