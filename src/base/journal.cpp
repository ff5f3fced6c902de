// SPDX-License-Identifier: Apache-2.0
#include "src/base/journal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace bascule {

const char* journal_error_mark() noexcept {
  if (std::getenv("BASCULE_LAUNCHER") != nullptr) return kErrorMark;
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat facts = {};
  if (stream == nullptr || fstat(STDERR_FILENO, &facts) != 0) return "";
  char* end = nullptr;
  const unsigned long long device = std::strtoull(stream, &end, 10);
  if (*end != ':') return "";
  const unsigned long long inode = std::strtoull(end + 1, nullptr, 10);
  return device == facts.st_dev && inode == facts.st_ino ? kErrorMark : "";
}

}  // namespace bascule
