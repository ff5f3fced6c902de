// SPDX-License-Identifier: Apache-2.0
#include "src/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "src/base/digest.h"
#include "src/base/error.h"

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

std::string sha256_of_file(const std::string& path) {
  const InputFile file(path);
  std::vector<char> block(std::size_t{1} << 20);
  Sha256 sum;
  for (std::int64_t done = 0; done < file.size();) {
    const auto part = std::min<std::int64_t>(file.size() - done, static_cast<std::int64_t>(block.size()));
    file.read(block.data(), done, static_cast<std::size_t>(part));
    sum.add(block.data(), static_cast<std::size_t>(part));
    done += part;
  }
  return sum.hex();
}

namespace fs = std::filesystem;

void InputList::add(const std::string& folder, std::string file) {
  folders_[fs::path(folder.empty() ? "." : folder).lexically_normal().string()].push_back(std::move(file));
}

void InputList::add_path(const std::string& written) {
  const fs::path path(written);
  add(path.parent_path().string(), path.filename().string());
}

std::vector<InputFolder> InputList::sorted() const {
  std::vector<InputFolder> folders;
  for (auto [folder, files] : folders_) {
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    folders.push_back({folder, std::move(files)});
  }
  return folders;
}

}  // namespace bascule
