// SPDX-License-Identifier: Apache-2.0
#include "src/base/error.h"

#include <cerrno>
#include <utility>

#include "src/base/open_files.h"
#include "src/base/shown_path.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

// One line that every terminal and log can show: control characters become spaces, what is no UTF-8 a question mark.
void make_printable(std::string* text) {
  for (std::size_t i = 0; i < text->size();) {
    const std::size_t bytes = utf8_bytes_at(*text, i);
    if (bytes == 0) (*text)[i] = '?';
    if (bytes == 1 && static_cast<unsigned char>((*text)[i]) < 0x20) (*text)[i] = ' ';
    i += bytes == 0 ? 1 : bytes;
  }
}

}  // namespace

const char* advice_for_disk(int error) {
  switch (error) {
    case ENOSPC: return "free space on this file system";
    case EDQUOT: return "free space in your quota, or have it raised";
    case EROFS: return "this file system is mounted read-only: choose a folder on another one";
    case EACCES:
    case EPERM: return "choose a folder that you may write to";
    case EMFILE:
    case ENFILE: return advice_for_open(error);
    case EFBIG: return "raise the limit of file sizes (ulimit -f), or choose a file system for larger files";
    case EIO: return "the disk reports an error: see the system log";
    default: return "see the system log";
  }
}

Error::Error(ErrorKind kind, const std::string& where, std::string what, std::string what_to_do, int reason)
    : kind_(kind),
      where_(shown_path(where)),
      problem_(std::move(what)),
      what_to_do_(std::move(what_to_do)),
      reason_(reason) {
  line_ = where_.empty() ? problem_ : where_ + ": " + problem_;
  if (!what_to_do_.empty()) line_ += "; " + what_to_do_;
  make_printable(&line_);
}

}  // namespace bascule
