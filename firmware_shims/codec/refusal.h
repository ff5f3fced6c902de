// SPDX-License-Identifier: Apache-2.0
// Which pictures are refused, and as what. A picture is refused at the first sign of damage, also where its pixels
// would not be looked at; libjpeg's warnings that say nothing about the samples (odd JFIF version, odd Adobe marker,
// junk between header segments or before the restart marker that the data expect) are let pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware_shims/media_engine.h"

namespace bascule::codec {

struct [[nodiscard]] Verdict {
  media_engine_status status = MEDIA_ENGINE_OK;
  std::uint32_t detail = 0;  // as in media_engine_completion

  bool ok() const { return status == MEDIA_ENGINE_OK; }
};

// Limits on the cost of a picture; the fields of the same names in media_engine_config.
struct Limits {
  std::uint32_t max_pixels;
  std::uint32_t max_scans;
  std::uint32_t max_scan_megapixels;
};

// libjpeg gave up with this message code.
Verdict verdict_of_error(int message_code) noexcept;

// libjpeg warned with this message code; scans_begun: 0 while it still reads the headers. OK: the warning is let pass.
Verdict verdict_of_warning(int message_code, int scans_begun) noexcept;

// Refusals before a decoder is needed: no bytes, a format that is not decoded.
Verdict verdict_of_bytes(const std::uint8_t* bytes, std::size_t size) noexcept;

// The verdict on a header. `scans` is 1 for a picture of a single scan.
Verdict verdict_of_header(std::uint32_t width, std::uint32_t height, int components, std::uint32_t scans,
                          const Limits& limits) noexcept;

bool is_restart_marker(int marker) noexcept;

// The scans that the rest of a file announces, from the first byte after its first SOS segment on (that scan included),
// up to its end marker.
std::uint32_t count_scans(const std::uint8_t* bytes, std::size_t size) noexcept;

}  // namespace bascule::codec
