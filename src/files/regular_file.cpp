// SPDX-License-Identifier: Apache-2.0
#include "src/files/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

namespace bascule {

// O_NONBLOCK: opening a pipe would wait for its writer. It has no effect on regular files.
int open_regular_file(int folder, const char* path) noexcept {
  const int file = ::openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return -errno;
  struct stat facts = {};
  const int reason = ::fstat(file, &facts) != 0 ? errno
                     : S_ISREG(facts.st_mode)   ? 0
                     : S_ISDIR(facts.st_mode)   ? EISDIR
                                                : kNotAFile;
  if (reason == 0) return file;
  ::close(file);
  return -reason;
}

std::string file_problem(int reason) {
  if (reason == kNotAFile) return "is not a file";
  return "cannot be read: " + std::generic_category().message(reason);
}

}  // namespace bascule
