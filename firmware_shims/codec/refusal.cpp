// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/refusal.h"

#include <cstring>

#include <jpeglib.h>

#include <jerror.h>  // what it defines depends on jpeglib.h

namespace bascule::codec {

Verdict verdict_of_error(int message_code) noexcept {
  const std::uint32_t detail = static_cast<std::uint32_t>(message_code);
  switch (message_code) {
    case JERR_SOF_UNSUPPORTED:
    case JERR_BAD_PRECISION:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CCIR601_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_NOTIMPL: return {MEDIA_ENGINE_PICTURE_UNSUPPORTED, detail};
    case JERR_IMAGE_TOO_BIG: return {MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS, detail};
    case JERR_OUT_OF_MEMORY: return {MEDIA_ENGINE_PICTURE_TOO_LARGE, detail};
    case JERR_INPUT_EOF: return {MEDIA_ENGINE_PICTURE_TRUNCATED, detail};
    default: return {MEDIA_ENGINE_PICTURE_BROKEN, detail};
  }
}

Verdict verdict_of_warning(int message_code, int scans_begun) noexcept {
  const std::uint32_t detail = static_cast<std::uint32_t>(message_code);
  switch (message_code) {
    case JWRN_JPEG_EOF: return {MEDIA_ENGINE_PICTURE_TRUNCATED, detail};
    case JWRN_EXTRANEOUS_DATA:
      if (scans_begun == 0) return {};
      return {MEDIA_ENGINE_PICTURE_DAMAGED, detail};
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_TOO_MUCH_DATA: return {MEDIA_ENGINE_PICTURE_DAMAGED, detail};
    default: return {};
  }
}

Verdict verdict_of_bytes(const std::uint8_t* bytes, std::size_t size) noexcept {
  if (size == 0) return {MEDIA_ENGINE_PICTURE_EMPTY, 0};
  const media_engine_format format = media_engine_format_of(bytes, size);
  if (format == MEDIA_ENGINE_FORMAT_JPEG || format == MEDIA_ENGINE_FORMAT_PNG || format == MEDIA_ENGINE_FORMAT_WEBP)
    return {};
  return {MEDIA_ENGINE_PICTURE_OTHER_FORMAT, static_cast<std::uint32_t>(format)};
}

Verdict verdict_of_header(std::uint32_t width, std::uint32_t height, int components, std::uint32_t scans,
                          const Limits& limits) noexcept {
  const std::uint64_t pixels = std::uint64_t{width} * height;
  if (pixels > limits.max_pixels) return {MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS, 0};
  if (components != 1 && components != 3 && components != 4) return {MEDIA_ENGINE_PICTURE_UNSUPPORTED, 0};
  if (scans <= 1) return {};
  if (scans > limits.max_scans) return {MEDIA_ENGINE_PICTURE_TOO_MANY_SCANS, 0};
  if (pixels * scans > std::uint64_t{limits.max_scan_megapixels} * 1'000'000u) {
    return {MEDIA_ENGINE_PICTURE_TOO_MUCH_WORK, 0};
  }
  return {};
}

bool is_restart_marker(int marker) noexcept { return marker >= JPEG_RST0 && marker < JPEG_RST0 + 8; }

// Entropy-coded data holds FF only before 00 (a stuffed byte), a restart marker or a fill byte; any other marker ends
// it.
std::uint32_t count_scans(const std::uint8_t* bytes, std::size_t size) noexcept {
  std::uint32_t scans = 1;
  std::size_t at = 0;
  while (at + 1 < size) {
    const void* const found = std::memchr(bytes + at, 0xFF, size - at - 1);
    if (found == nullptr) return scans;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes) + 1;
    const std::uint8_t marker = bytes[at];
    if (marker == 0xFF) continue;
    ++at;
    if (marker == 0x00 || marker == 0x01 || is_restart_marker(marker)) continue;
    if (marker == 0xD9) return scans;
    if (marker == 0xDA) ++scans;
    if (at + 2 > size) return scans;
    at += std::size_t{bytes[at]} << 8 | bytes[at + 1];
  }
  return scans;
}

}  // namespace bascule::codec
