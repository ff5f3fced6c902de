// SPDX-License-Identifier: Apache-2.0
// The media engine of a loader, and the reasons for which it refuses a picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "firmware_shims/media_engine.h"
#include "src/base/span.h"
#include "src/settings/settings.h"

namespace bascule {

// The media engine of a loader: what it is opened with, and its lifetime.

// The steps of Preprocessing::kProcessor besides normalising with mean and std; see media_engine_job.
struct ProcessorRules {
  bool does_resize = true;
  std::int64_t shortest_edge = 0;  // of the resized picture, before the crop; 0: image_side
  std::int64_t size_divisor = 32;
  double levels = 255.0;
  bool makes_squares = false;  // both sides become the edge, by `interpolation`; the divisor is not read
  Interpolation interpolation = Interpolation::kBicubic;
};

// The random changes of Preprocessing::kTraining to the pictures of a stream; see media_engine_augment.
struct RandomCrops {
  Augment augment = Augment::kNone;
  NumberRange scale, ratio;
};

struct MediaSettings {
  const media_engine_driver* driver = nullptr;  // null: media_engine_builtin()
  std::int64_t polling_threads = 1;
  std::int64_t device_units = 2;  // of an engine with threads of its own
  std::string options;            // such an engine's own, as in media_engine_config
  bool fallback = false;          // such an engine's jobs go on in the host engine when the device is gone
  std::int64_t queue_depth = 16;
  // The most that the engine may be given. One picture may take half of it, whatever else is decoded.
  std::size_t memory_bytes = std::size_t{256} << 20;
  std::int64_t image_side = 288;
  std::uint32_t max_pixels = 178956970;  // at which Pillow refuses a picture
  bool scale_in_decoder = false;
  Preprocessing preprocessing = Preprocessing::kTraining;
  double mean[3] = {0.0, 0.0, 0.0};
  double std[3] = {1.0, 1.0, 1.0};
  Interpolation interpolation = Interpolation::kBicubic;  // kTraining alone, as the next
  double centre_crop_ratio = 1.0;                         // its side, of the shorter one after the resize
  ProcessorRules processor;
};

// Makes a job one with random changes to the picture of a row. They depend on seed, epoch and row alone.
void add_random_crop(media_engine_job* job, const RandomCrops& crops, std::uint64_t seed, std::int64_t epoch,
                     std::int64_t row) noexcept;

// The most pixels of a picture of at most so many whole megapixels, and never more than Pillow, and so the reference,
// takes.
std::uint32_t max_pixels(std::int64_t megapixels);

// Before the seal: all but `memory` and `memory_bytes` of what the engine is opened with; settings.options must outlive
// the opening. One picture may take half of settings.memory_bytes, however many threads poll, so that no
// verdict depends on their number. Throws Error (kSettings) where the engine does not have what is asked for, or needs
// more.
media_engine_config media_config(const MediaSettings& settings);

// The problem with a picture, in one number that a Status or a checkpoint can hold: the status, and where the detail
// says more than a decoder's message code, the detail too; of a picture that is too elongated its size. At most 52
// bits; the marks of worker.h are left free.
std::int64_t picture_reason(const media_engine_completion& completion) noexcept;
// For people: "is GIF; convert it to JPEG or PNG". Allocates.
std::string picture_reason_text(std::int64_t reason);

class Media : NonCopyable {
 public:
  // Before the seal. memory: media_engine_memory_needed() of media_config(settings), 64-byte aligned. Throws Error
  // (kData) where the device does not open. A fallback is said on standard error, also after the seal.
  Media(const MediaSettings& settings, Span<std::byte> memory);
  ~Media();

  media_engine* engine() const noexcept { return engine_; }
  // A job without sequence, encoded bytes and pixels.
  const media_engine_job& job_form() const noexcept { return job_form_; }

 private:
  media_engine* engine_ = nullptr;
  media_engine_job job_form_ = {};
};

// How the number that picture_reason() makes (media.h) is laid out, for those that tell one reason from another.

inline constexpr int kReasonStatusBits = 8;  // above them a limit, marks of worker.h and details

// The media_engine_status.
constexpr std::int64_t status_of_reason(std::int64_t reason) noexcept {
  return reason & ((std::int64_t{1} << kReasonStatusBits) - 1);
}

}  // namespace bascule
