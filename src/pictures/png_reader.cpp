// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/png_reader.h"

#include <png.h>
#include <zlib.h>

#include <cstddef>
#include <cstring>

namespace bascule {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n", kEndType = "IEND";

std::uint32_t number_at(std::string_view bytes, std::size_t at) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

// Chunks up to its last byte, each with its checksum. libpng itself reads none behind the last row.
bool has_checksums(std::string_view file) noexcept {
  if (file.substr(0, kSignature.size()) != kSignature) return false;
  for (std::size_t at = kSignature.size(), left = file.size() - at; left >= 12; left = file.size() - at) {
    const std::size_t length = number_at(file, at);
    if (length > left - 12) return false;
    const std::string_view summed = file.substr(at + 4, length + 4);
    const auto* const bytes = static_cast<const Bytef*>(static_cast<const void*>(summed.data()));
    if (crc32(0, bytes, static_cast<uInt>(summed.size())) != number_at(file, at + 8 + length)) return false;
    at += length + 12;
    if (summed == kEndType) return at == file.size();
  }
  return false;
}

}  // namespace

std::vector<std::uint8_t> png_pixels(std::string_view file, std::int64_t width, std::int64_t height) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  if (!has_checksums(file) || png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) return {};
  std::vector<std::uint8_t> pixels;
  if (image.width == width && image.height == height && image.format == PNG_FORMAT_RGB) {
    pixels.resize(static_cast<std::size_t>(3 * width * height));
    if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) pixels.clear();
  }
  png_image_free(&image);
  return pixels;
}

}  // namespace bascule
