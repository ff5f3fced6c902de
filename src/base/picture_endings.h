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

}  // namespace bascule
