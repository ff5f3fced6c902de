// SPDX-License-Identifier: Apache-2.0
// One picture from its encoded bytes to normalised planes, in one pass and in the memory of an arena: rows are
// resampled as they are decoded and kept in a ring until the vertical pass has used them. Serves the host engine and
// the model of a device. Sealed world.
#pragma once

#include <atomic>
#include <cstdint>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/refusal.h"
#include "firmware_shims/media_engine.h"
#include "kernels/resize.h"

namespace bascule::codec {

// Facts about a picture from its header; zeros where it was not understood.
struct PictureFacts {
  std::uint32_t width, height;  // upright
  std::uint32_t orientation;    // 1..8
};

struct PreparationSettings {
  Limits limits;
  bool scale_in_decoder;
  const ResizeKernels* kernels;
};

class PictureReader;

// The decoders at hand. Pictures of a format whose reader is null are refused.
struct Readers {
  PictureReader* jpeg;
  PictureReader* png;
  PictureReader* webp;
};

// job.pixels, job.side, job.element and job.preparation have been checked. `stop` as in PictureReader::read_header.
Verdict prepare_picture(PictureFacts* facts, const Readers& readers, Arena* arena, const media_engine_job& job,
                        const PreparationSettings& settings, const std::atomic<bool>* stop) noexcept;

}  // namespace bascule::codec
