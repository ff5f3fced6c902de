// SPDX-License-Identifier: Apache-2.0
#include "src/base/error.h"

#include <charconv>
#include <utility>

#include "src/base/paths.h"
#include "src/base/utf8.h"

namespace bascule {

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
  line_ = printable_line(std::move(line_));
}

namespace {

std::string list(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + words[i];
  return text;
}

}  // namespace

std::string and_list(const std::vector<std::string>& words) { return list(words, " and "); }
std::string or_list(const std::vector<std::string>& words) { return list(words, " or "); }

double as_written(float value) noexcept {
  char digits[32];
  const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double number = 0.0;
  std::from_chars(digits, end, number);
  return number;
}

}  // namespace bascule
