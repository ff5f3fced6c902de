// SPDX-License-Identifier: Apache-2.0
#include "src/commands/standard_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "src/base/error.h"

namespace bascule {

bool is_reader_gone(int descriptor) {
  pollfd polled = {descriptor, 0, 0};
  return poll(&polled, 1, 0) > 0 && (polled.revents & (POLLERR | POLLHUP)) != 0;
}

OutputToError::OutputToError() : kept_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {
  std::fflush(stdout);
  if (!kept_.is_open() || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw Error(ErrorKind::kDisk, "standard output", std::string("cannot be redirected: ") + std::strerror(errno));
}

OutputToError::~OutputToError() {
  std::fflush(stdout);
  // Standard output's own reader may well be there: that standard error's has gone is no failure of what follows.
  if (is_reader_gone(STDERR_FILENO)) std::clearerr(stdout);
  dup2(kept_.number(), STDOUT_FILENO);
}

}  // namespace bascule
