// SPDX-License-Identifier: Apache-2.0
// Detects the format of a file by its first bytes. Only decoded formats are told with care; the rest is told to be
// named in a message.
#include <cstdint>
#include <cstring>

#include "firmware_shims/media_engine.h"

namespace {

struct Signature {
  media_engine_format format;
  std::size_t at;
  const char* bytes;
  std::size_t size;
};

// A string literal with zeros inside.
template <std::size_t N>
constexpr Signature begins(media_engine_format format, const char (&bytes)[N], std::size_t at = 0) {
  return {format, at, bytes, N - 1};
}

constexpr Signature kSignatures[] = {
    begins(MEDIA_ENGINE_FORMAT_JPEG, "\xFF\xD8\xFF"),
    begins(MEDIA_ENGINE_FORMAT_PNG, "\x89PNG\r\n\x1A\n"),
    begins(MEDIA_ENGINE_FORMAT_GIF, "GIF87a"),
    begins(MEDIA_ENGINE_FORMAT_GIF, "GIF89a"),
    begins(MEDIA_ENGINE_FORMAT_TIFF, "II*\0"),
    begins(MEDIA_ENGINE_FORMAT_TIFF, "MM\0*"),
    begins(MEDIA_ENGINE_FORMAT_AVIF, "ftypavif", 4),
    begins(MEDIA_ENGINE_FORMAT_AVIF, "ftypavis", 4),
    begins(MEDIA_ENGINE_FORMAT_HEIC, "ftypheic", 4),
    begins(MEDIA_ENGINE_FORMAT_HEIC, "ftypheix", 4),
    begins(MEDIA_ENGINE_FORMAT_HEIC, "ftyphevc", 4),
    begins(MEDIA_ENGINE_FORMAT_HEIC, "ftypmif1", 4),
    begins(MEDIA_ENGINE_FORMAT_HEIC, "ftypmsf1", 4),
    begins(MEDIA_ENGINE_FORMAT_MP4, "ftyp", 4),
    begins(MEDIA_ENGINE_FORMAT_JPEG_XL, "\xFF\x0A"),
    begins(MEDIA_ENGINE_FORMAT_JPEG_XL, "\0\0\0\x0CJXL \r\n\x87\n"),
    begins(MEDIA_ENGINE_FORMAT_JPEG_2000, "\0\0\0\x0CjP  \r\n\x87\n"),
    begins(MEDIA_ENGINE_FORMAT_JPEG_2000, "\xFF\x4F\xFF\x51"),
    begins(MEDIA_ENGINE_FORMAT_ICO, "\0\0\1\0"),
    begins(MEDIA_ENGINE_FORMAT_PSD, "8BPS"),
    begins(MEDIA_ENGINE_FORMAT_PDF, "%PDF-"),
    begins(MEDIA_ENGINE_FORMAT_GZIP, "\x1F\x8B"),
    begins(MEDIA_ENGINE_FORMAT_ZIP, "PK\3\4"),
    begins(MEDIA_ENGINE_FORMAT_BMP, "BM"),
};

constexpr std::size_t kTextLook = 512;  // bytes that are looked at where no signature fits

bool matches(const Signature& signature, const std::uint8_t* bytes, std::size_t size) {
  return size >= signature.at + signature.size &&
         std::memcmp(bytes + signature.at, signature.bytes, signature.size) == 0;
}

bool is_webp(const std::uint8_t* bytes, std::size_t size) {
  return matches(begins(MEDIA_ENGINE_FORMAT_WEBP, "RIFF"), bytes, size) &&
         matches(begins(MEDIA_ENGINE_FORMAT_WEBP, "WEBP", 8), bytes, size);
}

// The flags of an extended file say whether it is animated.
media_engine_format webp_format(const std::uint8_t* bytes, std::size_t size) {
  constexpr std::size_t kFlagsAt = 20;
  constexpr std::uint8_t kIsAnimated = 0x02;
  const bool has_flags = size > kFlagsAt && matches(begins(MEDIA_ENGINE_FORMAT_WEBP, "VP8X", 12), bytes, size);
  return has_flags && (bytes[kFlagsAt] & kIsAnimated) != 0 ? MEDIA_ENGINE_FORMAT_ANIMATED_WEBP
                                                           : MEDIA_ENGINE_FORMAT_WEBP;
}

bool is_space(std::uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::uint8_t lower(std::uint8_t c) { return c >= 'A' && c <= 'Z' ? static_cast<std::uint8_t>(c - 'A' + 'a') : c; }

// `word`, in lower case, somewhere in the text, in any case of letters.
bool holds(const std::uint8_t* text, std::size_t size, const char* word) {
  const std::size_t length = std::strlen(word);
  for (std::size_t at = 0; at + length <= size; ++at) {
    std::size_t same = 0;
    while (same < length && lower(text[at + same]) == static_cast<std::uint8_t>(word[same])) ++same;
    if (same == length) return true;
  }
  return false;
}

// The kind of text in a file without a signature, or that it is none.
media_engine_format text_format(const std::uint8_t* bytes, std::size_t size) {
  if (size > kTextLook) size = kTextLook;
  if (size >= 3 && std::memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {  // a byte order mark
    bytes += 3;
    size -= 3;
  }
  while (size > 0 && is_space(*bytes)) {
    ++bytes;
    --size;
  }
  if (size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' && is_space(bytes[2]))
    return MEDIA_ENGINE_FORMAT_NETPBM;
  for (std::size_t i = 0; i < size; ++i) {
    const bool is_text = is_space(bytes[i]) || (bytes[i] >= 0x20 && bytes[i] != 0x7F);
    if (!is_text) return MEDIA_ENGINE_FORMAT_UNKNOWN;
  }
  if (size == 0) return MEDIA_ENGINE_FORMAT_UNKNOWN;
  if (holds(bytes, size, "<svg")) return MEDIA_ENGINE_FORMAT_SVG;
  if (holds(bytes, size, "<html") || holds(bytes, size, "<!doctype html")) return MEDIA_ENGINE_FORMAT_HTML;
  if (bytes[0] == '<' && size > 1 && bytes[1] == '?') return MEDIA_ENGINE_FORMAT_XML;
  // Four letters are not enough to call it text.
  return size >= 4 ? MEDIA_ENGINE_FORMAT_TEXT : MEDIA_ENGINE_FORMAT_UNKNOWN;
}

}  // namespace

extern "C" media_engine_format media_engine_format_of(const uint8_t* bytes, size_t size) {
  if (is_webp(bytes, size)) return webp_format(bytes, size);
  for (const Signature& signature : kSignatures) {
    if (matches(signature, bytes, size)) return signature.format;
  }
  return text_format(bytes, size);
}
