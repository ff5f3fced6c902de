// SPDX-License-Identifier: Apache-2.0
#include "src/data/picture_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "src/base/error.h"

namespace bascule {
namespace {

// Reads until the file ends or the memory is full. 0 or errno.
int read_all(int file, Span<std::uint8_t> memory, std::size_t* bytes) noexcept {
  *bytes = 0;
  while (*bytes < memory.size()) {
    const ::ssize_t got = ::read(file, memory.data() + *bytes, memory.size() - *bytes);
    if (got == 0) return 0;
    if (got < 0 && errno != EINTR) return errno;
    if (got > 0) *bytes += static_cast<std::size_t>(got);
  }
  return EFBIG;
}

}  // namespace

PictureFolder::PictureFolder(const Manifest& manifest)
    : manifest_(manifest), folder_(::open(manifest.folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0) {
    throw Error{ErrorKind::kData, manifest.folder(), std::generic_category().message(errno)};
  }
}

PictureFolder::~PictureFolder() { ::close(folder_); }

// Pictures are numbered in order of first use, so the row that uses the next number names a picture for the first time.
std::size_t PictureFolder::largest_file_bytes() const {
  std::size_t largest = 0;
  std::int64_t seen = 0;
  for (std::int64_t row = 0; row < manifest_.rows(); ++row) {
    if (manifest_.image_id(row) != seen) continue;
    const std::string_view path = manifest_.image_path(seen);
    ++seen;
    struct stat facts = {};
    const bool found = ::fstatat(folder_, path.data(), &facts, 0) == 0;
    if (!found || !S_ISREG(facts.st_mode)) {
      const std::string reason = found ? "not a file" : std::generic_category().message(errno);
      throw Error{ErrorKind::kData, manifest_.where(row), std::string(path) + ": " + reason};
    }
    largest = std::max(largest, static_cast<std::size_t>(facts.st_size));
  }
  return largest;
}

int PictureFolder::read(std::int64_t row, Span<std::uint8_t> memory, std::size_t* bytes) const noexcept {
  const std::string_view path = manifest_.image_path(manifest_.image_id(row));
  const int file = ::openat(folder_, path.data(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return errno;
  const int failure = read_all(file, memory, bytes);
  ::close(file);
  return failure;
}

}  // namespace bascule
