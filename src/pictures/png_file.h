// SPDX-License-Identifier: Apache-2.0
// Pictures that are written: PNG, RGB, 8 bits, no alpha and no time, one filter and one level of compression; so a
// picture has the same bytes every time. Another version of zlib may compress it to other bytes: digests are for
// pixels. Before the seal or when nothing is sealed: allocates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

// What a file says of its picture: a tEXt chunk where the value is ASCII, else iTXt.
struct PngText {
  std::string key;    // 1 to 79 letters, digits and single spaces within
  std::string value;  // UTF-8
};

struct RgbPicture {
  const std::uint8_t* pixels = nullptr;  // (height, width, 3)
  std::int64_t width = 0, height = 0;    // from 1 to 65,535
};

// The file's content. Throws Error kData for a text that PNG cannot hold: a value that is not UTF-8 or has a byte 0.
std::string png_content(const RgbPicture& picture, const std::vector<PngText>& texts = {});
// Writes it whole or not at all, in place of a file of that name. Throws Error kDisk as write_output_file() does.
void write_png(const std::string& path, const RgbPicture& picture, const std::vector<PngText>& texts = {});

}  // namespace bascule
