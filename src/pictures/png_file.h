// SPDX-License-Identifier: Apache-2.0
// PNG files: written, one at a time or streamed, and read back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/readable.h"
#include "src/base/span.h"
#include "src/base/status.h"

namespace bascule {

// PNG files: RGB, 8 bits, no alpha and no time, one filter and one level of compression; so a picture has the same
// bytes every time. Another version of zlib may compress it to other bytes: digests are for pixels.
//
//   PngWriter writer({512, 512, 4, 1024});                     // before the seal
//   writer.seal(memory);                                       // writer.bytes() of it
//   writer.write(folder, "00000.png", {pixels, 512, 512}, texts);  // sealed: allocates nothing
//
// libpng and zlib take their memory from a pool within `memory`, which is empty again at each picture. How much they
// take is measured in the constructor. The encoded file lies behind the pool, and is written from there.

struct RgbPicture {
  const std::uint8_t* pixels = nullptr;  // (height, width, 3)
  std::int64_t width = 0, height = 0;    // from 1 to 65,535
};

// A text that a file holds about its picture: a tEXt chunk where the value is ASCII, else iTXt.
struct PngTextView {
  std::string_view key;    // 1 to 79 letters, digits and single spaces within
  std::string_view value;  // UTF-8 without a byte 0
};

// Before the seal. Throws Error kData for a value that PNG cannot hold: one that is not UTF-8 or has a byte 0.
void check_png_text(const PngTextView& text);

struct PngLimits {
  std::int64_t width = 0, height = 0;  // the largest picture
  std::size_t texts = 0;               // of a picture, at most
  std::size_t text_bytes = 0;          // of a value; a longer one is cut there, between two characters
};

class PngWriter : NonCopyable {
 public:
  // Allocates, to measure. Throws Error kMemory.
  explicit PngWriter(const PngLimits& limits);

  std::size_t bytes() const noexcept { return library_bytes_ + file_bytes_; }
  // memory: bytes(), 16-byte aligned; it must outlive this.
  void seal(std::byte* memory) noexcept { memory_ = memory; }

  // After seal(). By one thread at a time. Values were checked by check_png_text().
  // Beyond the limits memory runs out: kDiskFailed with ENOMEM (libpng's and zlib's) or EOVERFLOW (the file's).
  // *file: the content, until the next call.
  Status encode(const RgbPicture& picture, Span<const PngTextView> texts, std::string_view* file) noexcept;
  // As folder/name, whole or not at all, in place of a file of that name. A failure leaves nothing beside.
  Status write(const char* folder, std::string_view name, const RgbPicture& picture,
               Span<const PngTextView> texts) noexcept;

 private:
  const std::size_t text_bytes_;
  std::size_t library_bytes_ = 0;  // libpng's and zlib's
  std::size_t file_bytes_ = 0;     // of the largest file
  std::byte* memory_ = nullptr;
};

// Reads PNG files that PngWriter wrote back: whether they are whole, and their pixels. Before the seal or when nothing
// is sealed: allocates.

// The pixels of a file that a PngWriter has made of a picture of that size: (height, width, 3). Empty for any other:
// the checksums of all chunks are compared, so that not a bit of it is another one.
std::vector<std::uint8_t> png_pixels(std::string_view file, std::int64_t width, std::int64_t height);

// One picture as a PNG file, before the seal or when nothing is sealed: a PngWriter of its own. Allocates.

// The file's content. A text's name is its key. Throws Error kData for a text that PNG cannot hold: a value that is not
// UTF-8 or has a byte 0.
std::string png_content(const RgbPicture& picture, const std::vector<NamedText>& texts = {});
// Writes it whole or not at all, in place of a file of that name. Throws Error kDisk as write_output_file() does.
void write_png(const std::string& path, const RgbPicture& picture, const std::vector<NamedText>& texts = {});

}  // namespace bascule
