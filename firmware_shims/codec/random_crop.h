// SPDX-License-Identifier: Apache-2.0
// The draws of MEDIA_ENGINE_CROP_FLIP: which part of an upright picture is resized, and whether it is mirrored. Sealed
// world.
#pragma once

#include <cstdint>

#include "firmware_shims/media_engine.h"

namespace bascule::codec {

struct CropBox {
  std::int64_t left, top, width, height;
};

// Draws the crop of an upright picture of width x height, both at least 1.
CropBox random_crop(const media_engine_job& job, std::int64_t width, std::int64_t height) noexcept;

bool random_flip(const media_engine_job& job) noexcept;

}  // namespace bascule::codec
