// SPDX-License-Identifier: Apache-2.0
#include "src/index/picture_folder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/base/open_files.h"
#include "src/files/regular_file.h"

namespace bascule {
namespace {

// Beside shards: settings, logs, checkpoints, libraries.
constexpr ::rlim_t kOtherFiles = 64;

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

// As many more open files as the system allows this process, where it has set it fewer.
void allow_open_files(std::size_t more) {
  ::rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  if (more + kOtherFiles <= 256 && limit.rlim_cur >= 1024) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Error too_few_open_files(const std::string& path, std::size_t shards) {
  ::rlimit limit = {};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string others = "up to " + std::to_string(kOtherFiles) + " for settings, logs, checkpoints and libraries";
  return Error{ErrorKind::kData, path,
               "the limit of " + std::to_string(limit.rlim_cur) + " open files is too low: the run needs " +
                   (shards > 0 ? "one for each of " + count_of(shards, "shard") + ", and " : "") + others,
               advice_for_open(EMFILE) + std::string(shards > 0 ? ", or use fewer, larger shards" : ""), EMFILE};
}

}  // namespace

PictureFolder::PictureFolder(const Manifest& manifest) : manifest_(manifest) {
  const auto add = [&](const std::string& path, int file) {
    if (file >= 0) {
      open_.emplace_back(file);
      return;
    }
    const int reason = -file;
    if (reason == EMFILE || reason == ENFILE) {
      throw too_few_open_files(path, manifest.shards().size());
    }
    throw Error{ErrorKind::kData, path, file_problem(reason)};
  };
  open_.reserve(std::max<std::size_t>(1, manifest.shards().size()));
  if (manifest.shards().empty()) {
    // O_PATH: a folder that pictures lie below need not be readable itself.
    const int folder = ::open(manifest.folder().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    add(manifest.folder(), folder < 0 ? -errno : folder);
  }
  allow_open_files(manifest.shards().size());
  for (const std::string& shard : manifest.shards()) add(shard, open_regular_file(AT_FDCWD, shard.c_str()));
}

// Pictures are numbered in order of first use, so the row that uses the next number names a picture for the first time.
std::size_t PictureFolder::largest_file_bytes() const {
  if (manifest_.is_measured()) return manifest_.largest_picture_bytes();
  std::size_t largest = 0;
  std::int64_t seen = 0;
  for (std::int64_t row = 0; row < manifest_.rows(); ++row) {
    if (manifest_.image_id(row) != seen) continue;
    const std::int64_t picture = seen++;
    struct stat facts = {};
    const bool found = ::fstatat(open_[0].number(), manifest_.image_path(picture).data(), &facts, 0) == 0;
    if (!found || !S_ISREG(facts.st_mode)) {
      const std::string reason = found ? "not a file" : std::generic_category().message(errno);
      manifest_.refuse_picture(row, reason);
    }
    largest = std::max(largest, static_cast<std::size_t>(facts.st_size));
  }
  return largest;
}

int PictureFolder::read_picture(std::int64_t id, Span<std::uint8_t> memory, std::size_t* bytes) const noexcept {
  if (!manifest_.shards().empty()) return read_from_shard(manifest_.place(id), memory, bytes);
  const int file = open_regular_file(open_[0].number(), manifest_.image_path(id).data());
  if (file < 0) return -file;
  const Descriptor owner(file);
  return read_all(file, memory, bytes);
}

int PictureFolder::read_from_shard(const PicturePlace& place, Span<std::uint8_t> memory,
                                   std::size_t* bytes) const noexcept {
  *bytes = 0;
  if (place.bytes >= memory.size()) return EFBIG;
  if (place.shard >= open_.size()) return EIO;
  while (*bytes < place.bytes) {
    const ::ssize_t got = ::pread(open_[place.shard].number(), memory.data() + *bytes, place.bytes - *bytes,
                                  static_cast<::off_t>(place.offset + *bytes));
    if (got == 0) return ENODATA;
    if (got < 0 && errno != EINTR) return errno;
    if (got > 0) *bytes += static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace bascule
