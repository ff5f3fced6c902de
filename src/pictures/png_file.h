// SPDX-License-Identifier: Apache-2.0
// One picture as a PNG file, before the seal or when nothing is sealed: a PngWriter of its own. Allocates.
#pragma once

#include <string>
#include <vector>

#include "src/pictures/png_writer.h"

namespace bascule {

// A PngTextView with text of its own.
struct PngText {
  std::string key, value;
};

// The file's content. Throws Error kData for a text that PNG cannot hold: a value that is not UTF-8 or has a byte 0.
std::string png_content(const RgbPicture& picture, const std::vector<PngText>& texts = {});
// Writes it whole or not at all, in place of a file of that name. Throws Error kDisk as write_output_file() does.
void write_png(const std::string& path, const RgbPicture& picture, const std::vector<PngText>& texts = {});

}  // namespace bascule
