// SPDX-License-Identifier: Apache-2.0
// Which way up a picture is. EXIF's tag 0x0112 of IFD0 counts, whatever its value; without the tag, XMP's
// tiff:Orientation does. Only values 1..8 turn anything. Sealed world.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule::codec {

// How stored pixels become upright ones: first mirrored along x and y as stored, then transposed.
struct Turn {
  bool transpose;  // rows become columns
  bool mirror_x;   // stored columns run right to left
  bool mirror_y;   // stored rows run bottom to top
};

// orientation: 1..8 as in EXIF.
Turn turn_of(std::uint32_t orientation) noexcept;

// Fed with what a file says, in its order.
class OrientationFinder {
 public:
  // JPEG: an APP1 segment before the first scan. `body`: what follows the segment's length.
  void see_app1(const std::uint8_t* body, std::size_t size) noexcept;
  // The body of PNG's eXIf chunk or WebP's EXIF chunk; of several that are shown to it the last counts. False: it does
  // not begin as EXIF does.
  bool see_exif_chunk(const std::uint8_t* body, std::size_t size) noexcept;
  // PNG: EXIF as a text chunk held it; counts where there is no eXIf.
  void see_raw_exif(const std::uint8_t* body, std::size_t size) noexcept;
  // An XMP document; the last one counts.
  void see_xmp(const std::uint8_t* text, std::size_t size) noexcept;
  // 1..8.
  std::uint32_t orientation() const noexcept;

 private:
  bool exif_seen_ = false;
  bool chunk_seen_ = false;
  bool tag_seen_ = false;
  std::uint32_t exif_ = 0;  // 0: none that counts
  std::uint32_t xmp_ = 0;   // 0: none that counts
};

}  // namespace bascule::codec
