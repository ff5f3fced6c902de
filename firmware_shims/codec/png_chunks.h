// SPDX-License-Identifier: Apache-2.0
// The chunks of a PNG, walked without looking at their contents or checksums: what may stand behind the pixels, such as
// the orientation, must be known before the first of them. Sealed world.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/orientation.h"
#include "firmware_shims/codec/refusal.h"

namespace bascule::codec {

// Feeds the finder with eXIf (of several the last counts), with "Raw profile type exif" and with XMP, compressed or
// not, wherever they stand, as Pillow does. A chunk that reaches past the end of the file ends the walk: the decoder
// will say so. Needs some of the arena for a compressed text, which is free again at the end. TOO_LARGE: the arena is
// full. BROKEN: an eXIf that does not begin as EXIF does, at which Pillow gives up.
Verdict find_png_orientation(OrientationFinder* finder, Arena* arena, const std::uint8_t* bytes,
                             std::size_t size) noexcept;

}  // namespace bascule::codec
