// SPDX-License-Identifier: Apache-2.0
// Pictures of a manifest, read into memory of the caller's. Files: open, read to the end, close, relative to a folder
// that is opened once. In shards: one read at the picture's place, each shard being opened once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/index/manifest.h"

namespace bascule {

class PictureFolder {
 public:
  // Before the seal. Throws Error (kData), also where the system does not allow as many open files as there are shards.
  explicit PictureFolder(const Manifest& manifest);

  // Before the seal: the size of the largest picture. Unless the manifest is measured, asks each file; then throws
  // Error (kData) naming the first row whose picture is missing or is no file.
  std::size_t largest_file_bytes() const;
  // A row's picture into `memory`, which must be at least one byte larger than the picture. 0 and *bytes, or errno;
  // EFBIG: the picture fills the memory; ENODATA: its shard became shorter; kNotAFile. Allocates nothing.
  int read(std::int64_t row, Span<std::uint8_t> memory, std::size_t* bytes) const noexcept {
    return read_picture(manifest_.image_id(row), memory, bytes);
  }
  // The same, by the picture's number.
  int read_picture(std::int64_t image_id, Span<std::uint8_t> memory, std::size_t* bytes) const noexcept;

 private:
  int read_from_shard(const PicturePlace& place, Span<std::uint8_t> memory, std::size_t* bytes) const noexcept;

  const Manifest& manifest_;
  std::vector<Descriptor> open_;  // the folder, or the shards in order
};

}  // namespace bascule
