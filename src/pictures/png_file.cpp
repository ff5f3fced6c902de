// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/png_file.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>

#include "src/base/check.h"
#include "src/files/durable_write.h"

namespace bascule {

std::string png_content(const RgbPicture& picture, const std::vector<PngText>& texts) {
  std::vector<PngTextView> views;
  std::size_t longest = 0;
  for (const PngText& text : texts) {
    views.push_back({text.key, text.value});
    check_png_text(views.back());
    longest = std::max(longest, text.value.size());
  }
  PngWriter writer({picture.width, picture.height, texts.size(), longest});
  const std::unique_ptr<std::byte[]> memory(new std::byte[writer.bytes()]);
  writer.seal(memory.get());
  std::string_view file;
  const Status status = writer.encode(picture, views, &file);
  BASCULE_CHECK(status.ok());  // its limits are this picture's
  return std::string(file);
}

void write_png(const std::string& path, const RgbPicture& picture, const std::vector<PngText>& texts) {
  write_output_file(path, png_content(picture, texts));
}

}  // namespace bascule
