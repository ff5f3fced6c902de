// SPDX-License-Identifier: Apache-2.0
// Which files are pictures by their names. What is in them decides the format (media_engine.h).
#pragma once

#include <string_view>

namespace bascule {

// For messages.
inline constexpr char kPictureEndings[] = ".jpg, .jpeg, .png or .webp";

// ending: of a file's name, in lower case, without the dot.
inline bool is_picture_ending(std::string_view ending) noexcept {
  return ending == "jpg" || ending == "jpeg" || ending == "png" || ending == "webp";
}

// Likewise: of pictures of kinds that are not read.
inline bool is_other_picture_ending(std::string_view ending) noexcept {
  for (const char* const one :
       {"avif", "bmp", "gif", "heic", "heif", "jfif", "jp2", "jpe", "pbm", "pgm", "ppm", "tif", "tiff"}) {
    if (ending == one) return true;
  }
  return false;
}

}  // namespace bascule
