// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/orientation.h"

#include <cstring>

namespace bascule::codec {
namespace {

constexpr char kExifName[] = "Exif\0";  // six bytes with the literal's own zero
constexpr std::size_t kExifNameBytes = 6;
constexpr char kXmpName[] = "http://ns.adobe.com/xap/1.0/";
constexpr std::size_t kXmpNameBytes = sizeof(kXmpName);
constexpr char kXmpTag[] = "tiff:Orientation";
constexpr std::size_t kXmpTagBytes = sizeof(kXmpTag) - 1;
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;

// A TIFF body: numbers in the byte order that its head names.
struct Tiff {
  const std::uint8_t* data;
  std::size_t size;
  bool big_endian;

  std::uint32_t u16(std::size_t at) const {
    return big_endian ? std::uint32_t{data[at]} << 8 | data[at + 1] : std::uint32_t{data[at + 1]} << 8 | data[at];
  }
  std::uint32_t u32(std::size_t at) const {
    return big_endian ? u16(at) << 16 | u16(at + 2) : u16(at + 2) << 16 | u16(at);
  }
};

bool is_valid(std::uint32_t orientation) { return orientation >= 1 && orientation <= 8; }

// The first entry with the tag in IFD0. False: there is none, or the head is wrong.
bool find_exif_tag(const std::uint8_t* body, std::size_t size, std::uint32_t* value) {
  if (size < 8) return false;
  const bool big_endian = std::memcmp(body, "MM\0*", 4) == 0;
  if (!big_endian && std::memcmp(body, "II*\0", 4) != 0) return false;
  const Tiff tiff{body, size, big_endian};
  const std::size_t directory = tiff.u32(4);
  if (directory > size - 2) return false;
  const std::uint32_t entries = tiff.u16(directory);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > size) return false;
    if (tiff.u16(entry) != kOrientationTag) continue;
    const std::uint32_t type = tiff.u16(entry + 2);
    const bool is_number = (type == kShort || type == kLong) && tiff.u32(entry + 4) == 1;
    *value = !is_number ? 0 : type == kShort ? tiff.u16(entry + 8) : tiff.u32(entry + 8);
    return true;
  }
  return false;
}

// The digit after the first `tiff:Orientation="` or `tiff:Orientation>`; 0: none.
std::uint32_t find_xmp_value(const std::uint8_t* text, std::size_t size) {
  std::size_t at = 0;
  while (at + kXmpTagBytes + 2 <= size) {
    const void* const found = std::memchr(text + at, kXmpTag[0], size - at);
    if (found == nullptr) return 0;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - text);
    if (at + kXmpTagBytes + 2 > size) return 0;
    if (std::memcmp(text + at, kXmpTag, kXmpTagBytes) == 0) {
      std::size_t digit = at + kXmpTagBytes;
      if (text[digit] == '>') {
        digit += 1;
      } else if (text[digit] == '=' && text[digit + 1] == '"') {
        digit += 2;
      }
      const bool has_digit = digit > at + kXmpTagBytes && digit < size && text[digit] >= '0' && text[digit] <= '9';
      if (has_digit) return static_cast<std::uint32_t>(text[digit] - '0');
    }
    ++at;
  }
  return 0;
}

bool has_exif_name(const std::uint8_t* body, std::size_t size) {
  return size >= kExifNameBytes && std::memcmp(body, kExifName, kExifNameBytes) == 0;
}

}  // namespace

Turn turn_of(std::uint32_t orientation) noexcept {
  switch (orientation) {
    case 2: return {false, true, false};
    case 3: return {false, true, true};
    case 4: return {false, false, true};
    case 5: return {true, false, false};
    case 6: return {true, false, true};
    case 7: return {true, true, true};
    case 8: return {true, true, false};
    default: return {false, false, false};
  }
}

void OrientationFinder::see_app1(const std::uint8_t* body, std::size_t size) noexcept {
  if (has_exif_name(body, size)) {
    if (exif_seen_) return;  // a second one only continues the first
    exif_seen_ = true;
    body += kExifNameBytes;
    size -= kExifNameBytes;
    if (has_exif_name(body, size)) {  // named twice by some writers
      body += kExifNameBytes;
      size -= kExifNameBytes;
    }
    tag_seen_ = find_exif_tag(body, size, &exif_);
  } else if (size >= kXmpNameBytes && std::memcmp(body, kXmpName, kXmpNameBytes) == 0) {
    see_xmp(body + kXmpNameBytes, size - kXmpNameBytes);
  }
}

bool OrientationFinder::see_exif_chunk(const std::uint8_t* body, std::size_t size) noexcept {
  while (has_exif_name(body, size)) {
    body += kExifNameBytes;
    size -= kExifNameBytes;
  }
  chunk_seen_ = true;
  tag_seen_ = find_exif_tag(body, size, &exif_);
  return size == 0 || (size >= 8 && (std::memcmp(body, "II", 2) == 0 || std::memcmp(body, "MM", 2) == 0));
}

void OrientationFinder::see_raw_exif(const std::uint8_t* body, std::size_t size) noexcept {
  if (chunk_seen_) return;
  (void)see_exif_chunk(body, size);
  chunk_seen_ = false;
}

void OrientationFinder::see_xmp(const std::uint8_t* text, std::size_t size) noexcept {
  xmp_ = find_xmp_value(text, size);
}

std::uint32_t OrientationFinder::orientation() const noexcept {
  const std::uint32_t value = tag_seen_ ? exif_ : xmp_;
  return is_valid(value) ? value : 1;
}

}  // namespace bascule::codec
