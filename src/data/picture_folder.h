// SPDX-License-Identifier: Apache-2.0
// Picture files of a manifest, read into memory of the caller's: open, read to the end, close, relative to a folder
// that is opened once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/span.h"
#include "src/data/manifest.h"

namespace bascule {

class PictureFolder {
 public:
  // Before the seal. Throws Error (kData).
  explicit PictureFolder(const Manifest& manifest);
  ~PictureFolder();
  PictureFolder(const PictureFolder&) = delete;
  PictureFolder& operator=(const PictureFolder&) = delete;

  // Before the seal: the size of the largest picture. Throws Error (kData) naming the first row whose picture is
  // missing or is no file.
  std::size_t largest_file_bytes() const;
  // The file of a row's picture into `memory`, which must be at least one byte larger than the file. 0 and *bytes, or
  // errno; EFBIG: the file fills the memory. Allocates nothing.
  int read(std::int64_t row, Span<std::uint8_t> memory, std::size_t* bytes) const noexcept;

 private:
  const Manifest& manifest_;
  int folder_ = -1;
};

}  // namespace bascule
