// SPDX-License-Identifier: Apache-2.0
#include "src/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/error.h"
#include "src/base/open_files.h"
#include "src/files/regular_file.h"

namespace bascule {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  const int opened = open_regular_file(AT_FDCWD, path_.c_str());
  struct stat about {};
  const int reason = opened < 0 ? -opened : ::fstat(opened, &about) != 0 ? errno : 0;
  descriptor_ = Descriptor(opened);
  if (reason == EISDIR || reason == kNotAFile) throw Error{ErrorKind::kData, path_, "is not a file", ""};
  if (reason != 0)
    throw Error{ErrorKind::kData, path_, std::string("cannot be opened: ") + std::strerror(reason),
                advice_for_open(reason), reason};
  size_ = about.st_size;
}

Status InputFile::try_read(void* destination, std::int64_t offset, std::size_t bytes) const noexcept {
  auto* to = static_cast<unsigned char*>(destination);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_.number(), to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Status{StatusCode::kReadFailed, {-1, got < 0 ? errno : 0}};
    to += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return ok_status();
}

void InputFile::read(void* destination, std::int64_t offset, std::size_t bytes) const {
  const Status status = try_read(destination, offset, bytes);
  if (!status.ok()) throw Error{ErrorKind::kData, path_, read_problem(status), ""};
}

std::string text_of_file(const std::string& path, std::int64_t max_bytes) {
  const InputFile file(path);
  if (file.size() > max_bytes)
    throw Error{ErrorKind::kData, path, "is too large: " + std::to_string(file.size()) + " bytes", ""};
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), 0, text.size());
  return text;
}

std::string read_problem(const Status& status) {
  const int code = static_cast<int>(status.detail[1]);
  return code == 0 ? "the file is truncated" : std::string("cannot be read: ") + std::strerror(code);
}

}  // namespace bascule
