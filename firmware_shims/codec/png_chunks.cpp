// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/png_chunks.h"

#include <algorithm>
#include <cstring>

#include <zlib.h>

namespace bascule::codec {
namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kChunkFrameBytes = 12;  // length, name, checksum
constexpr std::size_t kLongestKeyword = 79;
constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;  // of a compressed text; Pillow refuses longer ones
constexpr char kRawExif[] = "Raw profile type exif";
constexpr char kXmp[] = "XML:com.adobe.xmp";

struct Bytes {
  const std::uint8_t* data;
  std::size_t size;
};

std::uint32_t big_endian_u32(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

// Everything up to the first zero, which is skipped too. False: there is none.
bool take_word(Bytes* rest, Bytes* word) {
  if (rest->size == 0) return false;
  const void* const end = std::memchr(rest->data, 0, rest->size);
  if (end == nullptr) return false;
  *word = {rest->data, static_cast<std::size_t>(static_cast<const std::uint8_t*>(end) - rest->data)};
  rest->data += word->size + 1;
  rest->size -= word->size + 1;
  return true;
}

void* zlib_alloc(void* arena, unsigned int items, unsigned int size) {
  return static_cast<Arena*>(arena)->take(std::size_t{items} * size);
}
void zlib_free(void*, void*) {}

// False: the arena is full. A text that is damaged or too long becomes empty.
bool inflate_text(Arena* arena, Bytes packed, Bytes* text) {
  *text = {nullptr, 0};
  // The text takes what it needs: a stream grows by 1032 at most.
  const std::size_t most = std::min(kMostTextBytes, packed.size * 1032 + 64);
  auto* const to = arena->take_array<std::uint8_t>(most);
  if (to == nullptr) return false;
  z_stream stream = {};
  stream.zalloc = zlib_alloc;
  stream.zfree = zlib_free;
  stream.opaque = arena;
  if (inflateInit(&stream) != Z_OK) return false;
  stream.next_in = const_cast<std::uint8_t*>(packed.data);  // zlib reads it only
  stream.avail_in = static_cast<unsigned int>(packed.size);
  stream.next_out = to;
  stream.avail_out = static_cast<unsigned int>(most);
  if (inflate(&stream, Z_FINISH) == Z_STREAM_END) *text = {to, most - stream.avail_out};
  inflateEnd(&stream);
  return true;
}

int hex_digit(std::uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "\nexif\n      34\n4578...": three line breaks, then hexadecimal digits and blanks. False: the arena is full.
bool see_raw_exif(OrientationFinder* finder, Arena* arena, Bytes text) {
  for (int line = 0; line < 3; ++line) {
    const void* const end = text.size > 0 ? std::memchr(text.data, '\n', text.size) : nullptr;
    if (end == nullptr) return true;
    const auto taken = static_cast<std::size_t>(static_cast<const std::uint8_t*>(end) - text.data) + 1;
    text = {text.data + taken, text.size - taken};
  }
  auto* const body = arena->take_array<std::uint8_t>(text.size / 2 + 1);
  if (body == nullptr) return false;
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size; ++i) {
    const int digit = hex_digit(text.data[i]);
    if (digit < 0) continue;
    body[digits / 2] = static_cast<std::uint8_t>(digits % 2 == 0 ? digit << 4 : body[digits / 2] | digit);
    ++digits;
  }
  finder->see_raw_exif(body, digits / 2);
  return true;
}

bool is_word(Bytes word, const char* text) {
  return word.size == std::strlen(text) && std::memcmp(word.data, text, word.size) == 0;
}

// A tEXt, zTXt or iTXt chunk. False: the arena is full.
bool see_text(OrientationFinder* finder, Arena* arena, const std::uint8_t* name, Bytes body) {
  Bytes keyword;
  if (!take_word(&body, &keyword) || keyword.size > kLongestKeyword) return true;
  const bool is_exif = is_word(keyword, kRawExif);
  if (!is_exif && !is_word(keyword, kXmp)) return true;
  bool is_packed = false;
  if (std::memcmp(name, "zTXt", 4) == 0) {
    if (body.size < 1 || body.data[0] != 0) return true;
    is_packed = true;
    body = {body.data + 1, body.size - 1};
  } else if (std::memcmp(name, "iTXt", 4) == 0) {
    if (body.size < 2) return true;
    is_packed = body.data[0] != 0;
    if (is_packed && body.data[1] != 0) return true;
    body = {body.data + 2, body.size - 2};
    Bytes language, translated;
    if (!take_word(&body, &language) || !take_word(&body, &translated)) return true;
  }
  if (is_packed && !inflate_text(arena, body, &body)) return false;
  if (is_exif) return see_raw_exif(finder, arena, body);
  finder->see_xmp(body.data, body.size);
  return true;
}

bool is_text_chunk(const std::uint8_t* name) {
  return std::memcmp(name, "tEXt", 4) == 0 || std::memcmp(name, "zTXt", 4) == 0 || std::memcmp(name, "iTXt", 4) == 0;
}

}  // namespace

Verdict find_png_orientation(OrientationFinder* finder, Arena* arena, const std::uint8_t* bytes,
                             std::size_t size) noexcept {
  const std::size_t used_bytes = arena->used_bytes;
  for (std::size_t at = kSignatureBytes; size - at >= kChunkFrameBytes;) {
    const std::size_t length = big_endian_u32(bytes + at);
    const std::uint8_t* const name = bytes + at + 4;
    if (length > size - at - kChunkFrameBytes || std::memcmp(name, "IEND", 4) == 0) break;
    const Bytes body = {name + 4, length};
    if (std::memcmp(name, "eXIf", 4) == 0) {
      if (!finder->see_exif_chunk(body.data, body.size)) return {MEDIA_ENGINE_PICTURE_BROKEN, MEDIA_ENGINE_DETAIL_PNG};
    } else if (is_text_chunk(name)) {
      const bool fits = see_text(finder, arena, name, body);
      arena->used_bytes = used_bytes;
      if (!fits) return {MEDIA_ENGINE_PICTURE_TOO_LARGE, MEDIA_ENGINE_DETAIL_PNG};
    }
    at += kChunkFrameBytes + length;
  }
  return {};
}

}  // namespace bascule::codec
