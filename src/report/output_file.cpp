// SPDX-License-Identifier: Apache-2.0
#include "src/report/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "src/base/error.h"
#include "src/base/temporary_name.h"

namespace bascule {
namespace {

[[noreturn]] void fail(const std::string& path, const char* action, int error) {
  throw Error{ErrorKind::kDisk, path, std::string(action) + " failed: " + std::strerror(error), advice_for_disk(error)};
}

void write_all(int fd, const std::string& path, const std::string& content) {
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t wrote = ::write(fd, content.data() + done, content.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error = wrote < 0 ? errno : ENOSPC;
      ::close(fd);
      ::unlink(path.c_str());
      fail(path, "writing", error);
    }
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace

void write_output_file(const std::string& path, const std::string& content) {
  struct stat there = {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    throw Error{ErrorKind::kDisk, path, "is no regular file, and would be replaced", "name another place"};
  }
  // The name that is cleared away when a killed run is started again.
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  const std::string beside =
      folder + "/" + kTemporaryPrefix + (slash == std::string::npos ? path : path.substr(slash + 1));
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail(path, "creating", errno);
  write_all(fd, beside, content);
  const bool synced = ::fsync(fd) == 0;
  const int sync_error = errno;
  if (::close(fd) != 0 || !synced) {
    const int error = synced ? errno : sync_error;
    ::unlink(beside.c_str());
    fail(beside, "syncing", error);
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    fail(path, "renaming", error);
  }
  // Without this the name may be gone after a power cut.
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) fail(folder, "opening", errno);
  const bool folder_synced = ::fsync(folder_fd) == 0;
  const int folder_error = errno;
  ::close(folder_fd);
  if (!folder_synced) fail(folder, "syncing", folder_error);
}

}  // namespace bascule
