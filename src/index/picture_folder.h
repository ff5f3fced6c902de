// SPDX-License-Identifier: Apache-2.0
// Pictures of a manifest: reading them, and their digests.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/index/open_manifest.h"

namespace bascule {

// Pictures of a manifest, read into memory of the caller's. Files: open, read to the end, close, relative to a folder
// that is opened once. In shards: one read at the picture's place, each shard being opened once.

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

// The digest of a picture's file, as runs record it.

// XXH3 of the bytes. Never 0, which stands for a picture that was not read. noexcept, allocates nothing.
std::uint64_t picture_digest(const void* file, std::size_t bytes) noexcept;

// The digest of a picture, taken when a worker first reads it; 0: not read yet. Ranks that share memory share these.
using PictureDigest = std::atomic<std::uint64_t>;

// The digests of all pictures of a manifest. Reading them all takes as long as reading the files does, so the answer is
// cached beside the index (open_manifest.h) of as many rows as that, and holds while the index does: as long as the
// manifest and the sizes of its pictures are the same; of a folder of classes, as long as no picture changes. Before
// the seal.

// By picture; of a missing one the digest of its path. The manifest is measured. Throws Error{kData} naming the row
// whose picture cannot be read.
std::vector<std::uint64_t> picture_digests(const Manifest& manifest, const IndexCache& cache);

}  // namespace bascule
