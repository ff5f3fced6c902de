// SPDX-License-Identifier: Apache-2.0
// The common part of all engine kinds: texts, defaults, and the checks of arguments before the call goes to the
// driver.
#include "firmware_shims/media_engine.h"

#include <cmath>
#include <cstdint>

#include "firmware_shims/driver.h"

namespace {

constexpr std::uint32_t kPilPixelLimit = 178'956'970;
constexpr std::size_t kMemoryAlignment = 64;
constexpr std::uint32_t kMostEdge = 65536;  // of what a processor may be told

bool is_aligned(const void* pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

// The driver that opens a config.
const media_engine_driver& driver_of(const media_engine_config& config) {
  const bool has_companion = config.host_units > 0 && config.driver->query().works_in_poll == 0;
  return has_companion ? *media_engine_companion() : *config.driver;
}

// "is ...; convert it ..." for formats that are not decoded.
constexpr const char* kFormatTexts[MEDIA_ENGINE_FORMATS] = {nullptr,
                                                            nullptr,
                                                            nullptr,
                                                            "is GIF; convert it to JPEG or PNG",
                                                            nullptr,
                                                            "is BMP; convert it to JPEG or PNG",
                                                            "is TIFF; convert it to JPEG or PNG",
                                                            "is AVIF; convert it to JPEG or PNG",
                                                            "is HEIC; convert it to JPEG or PNG",
                                                            "is JPEG XL; convert it to JPEG or PNG",
                                                            "is JPEG 2000; convert it to JPEG or PNG",
                                                            "is an icon (ICO); convert it to JPEG or PNG",
                                                            "is a Photoshop document; convert it to JPEG or PNG",
                                                            "is SVG; convert it to JPEG or PNG",
                                                            "is XML, not a picture",
                                                            "is HTML, not a picture",
                                                            "is PDF; convert it to JPEG or PNG",
                                                            "is compressed with gzip; unpack it",
                                                            "is a ZIP archive, not a picture",
                                                            "is Netpbm (PBM, PGM, PPM); convert it to JPEG or PNG",
                                                            "is a video or an MP4 file, not a picture",
                                                            "is text, not a picture",
                                                            "is an animated WebP; convert it to a still picture"};

// These two: NULL: the text of the status says it all.
const char* png_text(media_engine_status status) {
  switch (status) {
    case MEDIA_ENGINE_PICTURE_BROKEN: return "a header of the PNG file is broken";
    case MEDIA_ENGINE_PICTURE_UNSUPPORTED: return "is PNG, which the device does not decode";
    case MEDIA_ENGINE_PICTURE_TRUNCATED: return "the PNG file is truncated";
    default: return nullptr;
  }
}

const char* webp_text(media_engine_status status) {
  switch (status) {
    case MEDIA_ENGINE_PICTURE_BROKEN: return "a header of the WebP file is broken";
    case MEDIA_ENGINE_PICTURE_UNSUPPORTED: return "is WebP, which the device does not decode";
    case MEDIA_ENGINE_PICTURE_TRUNCATED: return "the WebP file is truncated";
    default: return nullptr;
  }
}

constexpr const char* kFaultNames[MEDIA_ENGINE_FAULTS] = {
    "lost_completion",      "duplicated_completion", "late_completion",    "corrupted_completion",
    "corrupted_descriptor", "short_transfer",        "decode_error",       "stalled_unit",
    "queue_overrun",        "lost_doorbell",         "surprise_reset",     "reset_storm",
    "hung_reset",           "wrong_firmware",        "spurious_interrupt", "device_gone"};

bool has_bit(std::uint32_t mask, std::uint32_t bit) { return bit < 32 && (mask >> bit & 1U) != 0; }

bool is_valid_config(const media_engine_config& config) {
  const media_engine_capabilities can = config.driver->query();
  return config.queue_depth >= 1 && config.queue_depth <= can.max_queue_depth && config.units >= 1 &&
         config.units <= can.max_units && config.max_side >= 1 && config.max_side <= can.max_side &&
         config.max_pixels >= 1 && config.max_scans >= 1 && config.max_scan_megapixels >= 1 &&
         config.picture_bytes >= 1 && config.scale_in_decoder <= 1 &&
         config.fallback <= (config.host_units > 0 ? 1 : 0);
}

bool is_range(const double range[2], double least, double most) {
  return range[0] >= least && range[0] <= range[1] && range[1] <= most;
}

bool is_valid_training(const media_engine_job& job) {
  if (job.interpolation > MEDIA_ENGINE_BILINEAR || job.augment > MEDIA_ENGINE_CROP_FLIP) return false;
  if (job.augment == MEDIA_ENGINE_AUGMENT_NONE) return job.shortest_edge == 0 || job.shortest_edge >= job.side;
  constexpr double kWidestRatio = 1e3;
  return is_range(job.crop_scale, 0.0, 1.0) && is_range(job.crop_ratio, 1.0 / kWidestRatio, kWidestRatio);
}

media_engine_status check_job(const media_engine& engine, const media_engine_job& job) {
  const media_engine_capabilities can = engine.driver->query();
  if (!has_bit(can.preparations, job.preparation) || !has_bit(can.elements, job.element))
    return MEDIA_ENGINE_UNSUPPORTED;
  if (job.encoded == nullptr && job.encoded_bytes > 0) return MEDIA_ENGINE_INVALID;
  const std::size_t element_bytes = job.element == MEDIA_ENGINE_FLOAT32 ? 4 : 2;
  if (job.pixels == nullptr || !is_aligned(job.pixels, element_bytes)) return MEDIA_ENGINE_INVALID;
  if (job.side < 1 || job.side > engine.max_side || job.raw > 1) return MEDIA_ENGINE_INVALID;
  for (int c = 0; job.raw == 0 && c < 3; ++c) {
    if (!std::isfinite(job.mean[c]) || !std::isfinite(job.std[c]) || !(job.std[c] > 0.0)) return MEDIA_ENGINE_INVALID;
  }
  if (job.shortest_edge > kMostEdge) return MEDIA_ENGINE_INVALID;
  if (job.preparation == MEDIA_ENGINE_TRAINING) return is_valid_training(job) ? MEDIA_ENGINE_OK : MEDIA_ENGINE_INVALID;
  const bool has_sizes =
      job.preparation == MEDIA_ENGINE_SQUARE_PROCESSOR
          ? job.interpolation <= MEDIA_ENGINE_BILINEAR && (job.shortest_edge == 0 || job.shortest_edge >= job.side)
          : job.size_divisor >= 1 && job.size_divisor <= kMostEdge;
  return has_sizes && std::isfinite(job.levels) && job.levels > 0.0 ? MEDIA_ENGINE_OK : MEDIA_ENGINE_INVALID;
}

}  // namespace

extern "C" {

const char* media_engine_status_text(media_engine_status status) {
  switch (status) {
    case MEDIA_ENGINE_OK: return "done";
    case MEDIA_ENGINE_FULL: return "the queue is full";
    case MEDIA_ENGINE_EMPTY: return "nothing has completed";
    case MEDIA_ENGINE_TIMED_OUT: return "nothing completed in time";
    case MEDIA_ENGINE_BUSY: return "the job has already started";
    case MEDIA_ENGINE_NOT_FOUND: return "no such job is queued";
    case MEDIA_ENGINE_INVALID: return "an argument is invalid";
    case MEDIA_ENGINE_UNSUPPORTED: return "the engine does not support this";
    case MEDIA_ENGINE_NO_MEMORY: return "the memory given to the engine is too small";
    case MEDIA_ENGINE_PICTURE_EMPTY: return "the file is empty";
    case MEDIA_ENGINE_PICTURE_OTHER_FORMAT: return "is not JPEG, PNG or WebP; convert it to one of them";
    case MEDIA_ENGINE_PICTURE_BROKEN: return "a header or table of the JPEG file is broken";
    case MEDIA_ENGINE_PICTURE_UNSUPPORTED:
      return "this kind of JPEG is not supported (8 bits per sample with 1, 3 or 4 components are)";
    case MEDIA_ENGINE_PICTURE_TRUNCATED: return "the JPEG file is truncated";
    case MEDIA_ENGINE_PICTURE_DAMAGED:
      return "the compressed picture data is damaged; if a viewer shows the picture whole, save it again there";
    case MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS: return "the picture has more pixels than allowed";
    case MEDIA_ENGINE_PICTURE_TOO_MANY_SCANS: return "the JPEG file has more scans than allowed";
    case MEDIA_ENGINE_PICTURE_TOO_MUCH_WORK: return "the JPEG file has more pixels times scans than allowed";
    case MEDIA_ENGINE_PICTURE_TOO_LARGE:
      return "decoding the picture needs more memory than the engine has for one picture";
    case MEDIA_ENGINE_PICTURE_TOO_ELONGATED: return "the picture is too elongated";
    case MEDIA_ENGINE_DEVICE_GONE: return "the device does not respond";
    case MEDIA_ENGINE_DEVICE_FAILED: return "the device failed";
    case MEDIA_ENGINE_DEVICE_BAD_FIRMWARE: return "the driver does not support the firmware version of the device";
  }
  return "unknown status";
}

const char* media_engine_picture_text(media_engine_status status, uint32_t detail) {
  const char* text = nullptr;
  if (status == MEDIA_ENGINE_PICTURE_OTHER_FORMAT) {
    if (detail < MEDIA_ENGINE_FORMATS) text = kFormatTexts[detail];
  } else if ((detail & MEDIA_ENGINE_DETAIL_PNG) != 0) {
    text = png_text(status);
  } else if ((detail & MEDIA_ENGINE_DETAIL_WEBP) != 0) {
    text = webp_text(status);
  }
  return text != nullptr ? text : media_engine_status_text(status);
}

int media_engine_is_bad_picture(media_engine_status status) { return status >= 100 && status < 200 ? 1 : 0; }
int media_engine_is_bad_device(media_engine_status status) { return status >= 200 ? 1 : 0; }

const char* media_engine_fault_name(uint32_t fault) {
  return fault < MEDIA_ENGINE_FAULTS ? kFaultNames[fault] : nullptr;
}

const char* media_engine_option_problem(const media_engine_driver* driver, const char* option) {
  return driver->option_problem == nullptr ? "this kind of engine has no options" : driver->option_problem(option);
}

media_engine_capabilities media_engine_query(const media_engine_driver* driver) { return driver->query(); }

media_engine_config media_engine_default_config(const media_engine_driver* driver) {
  media_engine_config config = {};
  config.api_version = MEDIA_ENGINE_API_VERSION;
  config.driver = driver;
  config.queue_depth = 16;
  config.units = 1;
  config.max_side = 384;
  config.max_pixels = kPilPixelLimit;
  config.max_scans = 500;
  config.max_scan_megapixels = 2000;
  config.picture_bytes = std::size_t{64} << 20;
  return config;
}

size_t media_engine_memory_needed(const media_engine_config* config) {
  if (config == nullptr || config->driver == nullptr || !is_valid_config(*config)) return 0;
  return driver_of(*config).memory_needed(config);
}

media_engine_status media_engine_open(media_engine** engine, const media_engine_config* config) {
  if (engine == nullptr) return MEDIA_ENGINE_INVALID;
  *engine = nullptr;
  if (config == nullptr) return MEDIA_ENGINE_INVALID;
  if (config->api_version != MEDIA_ENGINE_API_VERSION) return MEDIA_ENGINE_UNSUPPORTED;
  const std::size_t needed = media_engine_memory_needed(config);
  if (needed == 0 || config->memory == nullptr || !is_aligned(config->memory, kMemoryAlignment))
    return MEDIA_ENGINE_INVALID;
  if (config->memory_bytes < needed) return MEDIA_ENGINE_NO_MEMORY;
  return driver_of(*config).open(engine, config);
}

media_engine_status media_engine_submit(media_engine* engine, const media_engine_job* job) {
  if (engine == nullptr || job == nullptr) return MEDIA_ENGINE_INVALID;
  const media_engine_status checked = check_job(*engine, *job);
  return checked != MEDIA_ENGINE_OK ? checked : engine->driver->submit(engine, job);
}

media_engine_status media_engine_poll(media_engine* engine, media_engine_completion* completion) {
  if (engine == nullptr || completion == nullptr) return MEDIA_ENGINE_INVALID;
  return engine->driver->poll(engine, completion);
}

media_engine_status media_engine_wait(media_engine* engine, media_engine_completion* completion, uint64_t timeout_ns) {
  if (engine == nullptr || completion == nullptr) return MEDIA_ENGINE_INVALID;
  return engine->driver->wait(engine, completion, timeout_ns);
}

media_engine_status media_engine_cancel(media_engine* engine, uint64_t sequence) {
  if (engine == nullptr) return MEDIA_ENGINE_INVALID;
  return engine->driver->cancel(engine, sequence);
}

media_engine_status media_engine_reset(media_engine* engine) {
  if (engine == nullptr) return MEDIA_ENGINE_INVALID;
  return engine->driver->reset(engine);
}

media_engine_statistics media_engine_get_statistics(media_engine* engine) { return engine->driver->statistics(engine); }

void media_engine_close(media_engine* engine) {
  if (engine != nullptr) engine->driver->close(engine);
}

}  // extern "C"
