// SPDX-License-Identifier: Apache-2.0
#include "src/files/durable_write.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/paths.h"

namespace bascule {
namespace {

constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;
constexpr std::int64_t kBehindBytes = 8 * kPartBytes;  // enough for the disk never to wait for us
constexpr int kMaxTreeDepth = 16;  // folders of ours are two deep; a chain of foreign ones must not exhaust the stack

Status disk_failed() noexcept { return Status{StatusCode::kDiskFailed, {errno, 0}}; }

// Where a file system cannot, the sync at the end does all of it. Any other error is the disk's, and told this once
// only: that sync would not repeat it.
Status write_back(int descriptor, std::int64_t offset, std::int64_t bytes, unsigned flags) noexcept {
  if (::sync_file_range(descriptor, offset, bytes, flags) == 0) return ok_status();
  const bool cannot = errno == ENOSYS || errno == EINVAL || errno == ESPIPE || errno == EOPNOTSUPP;
  return cannot ? ok_status() : disk_failed();
}

PathBuffer join(const char* folder, std::string_view name, std::string_view prefix = "",
                std::string_view suffix = "") noexcept {
  PathBuffer path(folder);
  path.append("/").append(prefix).append(name).append(suffix);
  return path;
}

PathBuffer leaving_path(const char* folder, std::string_view name) noexcept {
  return join(folder, name, kTemporaryPrefix, ".deleting");
}

Status rename_path(const PathBuffer& from, const PathBuffer& to) noexcept {
  return ::rename(from.c_str(), to.c_str()) == 0 ? ok_status() : disk_failed();
}

// One pass over the names in an open folder.
template <typename Visit>
Status visit_open_folder(int folder, Visit visit) noexcept {
  alignas(dirent64) char block[4096];
  if (::lseek(folder, 0, SEEK_SET) < 0) return disk_failed();
  for (;;) {
    const ssize_t bytes = ::getdents64(folder, block, sizeof block);
    if (bytes < 0) return disk_failed();
    if (bytes == 0) return ok_status();
    for (ssize_t at = 0; at < bytes;) {
      const char* entry = block + at;
      unsigned short entry_bytes = 0;
      std::memcpy(&entry_bytes, entry + offsetof(dirent64, d_reclen), sizeof entry_bytes);
      at += entry_bytes;
      const char* name = entry + offsetof(dirent64, d_name);
      if (std::strcmp(name, ".") != 0 && std::strcmp(name, "..") != 0) BASCULE_TRY(visit(name));
    }
  }
}

Status remove_entry(int parent, const char* name, int depth) noexcept;

// A pass may miss names that move while others go, so it is repeated until none is left.
Status empty_folder(int folder, int depth) noexcept {
  if (depth > kMaxTreeDepth) return Status{StatusCode::kDiskFailed, {ELOOP, 0}};
  for (bool removed_any = true; removed_any;) {
    removed_any = false;
    const Status pass = visit_open_folder(folder, [&](const char* name) noexcept {
      removed_any = true;
      return remove_entry(folder, name, depth);
    });
    // Somebody else removed the folder meanwhile: one that is open, but gone, cannot be listed.
    if (pass.code == StatusCode::kDiskFailed && pass.detail[0] == ENOENT) return ok_status();
    BASCULE_TRY(pass);
  }
  return ok_status();
}

bool is_no_folder(int reason) noexcept { return reason == ENOTDIR || reason == ELOOP; }

// Others may remove from the same tree, or still write into it: what is gone is no error, and a folder that got a new
// entry behind the last pass is emptied again.
Status remove_entry(int parent, const char* name, int depth) noexcept {
  constexpr int kTries = 50;
  constexpr timespec kPause{0, 1'000'000};
  for (int tried = 0; tried < kTries; ++tried) {
    if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) return ok_status();
    if (errno != EISDIR && errno != EPERM) return disk_failed();
    const int reason = errno;
    const Descriptor folder(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.is_open() && errno == ENOENT) return ok_status();
    if (!folder.is_open()) return Status{StatusCode::kDiskFailed, {is_no_folder(errno) ? reason : errno, 0}};
    BASCULE_TRY(empty_folder(folder.number(), depth + 1));
    if (::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return ok_status();
    if (errno != ENOTEMPTY && errno != EEXIST) return disk_failed();
    ::nanosleep(&kPause, nullptr);
  }
  return Status{StatusCode::kDiskFailed, {ENOTEMPTY, 0}};
}

}  // namespace

bool is_leftover(std::string_view name) noexcept {
  const std::string_view temporary = kTemporaryPrefix;
  return name.substr(0, temporary.size()) == temporary;
}

PathBuffer& PathBuffer::append(std::string_view text) noexcept {
  if (text.size() >= kCapacity - length_) {
    // One component of 4095 characters: a path that the system refuses, instead of a wrong one that it takes.
    too_long_ = true;
    std::memset(text_, 'x', kCapacity - 1);
    length_ = kCapacity - 1;
  } else if (!text.empty()) {
    std::memcpy(text_ + length_, text.data(), text.size());
    length_ += text.size();
  }
  text_[length_] = '\0';
  return *this;
}

PathBuffer& PathBuffer::append(std::int64_t number) noexcept {
  char digits[24];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  return append(std::string_view(digits, static_cast<std::size_t>(end - digits)));
}

void PathBuffer::cut(std::size_t length) noexcept {
  if (too_long_ || length > length_) return;
  length_ = length;
  text_[length_] = '\0';
}

Status OutputFile::create(const char* path) noexcept {
  BASCULE_DCHECK(!descriptor_.is_open());
  descriptor_ = Descriptor(::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  return descriptor_.is_open() ? ok_status() : disk_failed();
}

Status OutputFile::write(const void* data, std::size_t bytes, WriteProgress progress) noexcept {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, static_cast<std::size_t>(kPartBytes));
    BASCULE_TRY(write_all(descriptor_.number(), from, part));
    digest_.add(from, part);
    from += part;
    bytes -= part;
    written_ += static_cast<std::int64_t>(part);
    if (progress.tell != nullptr) progress.tell(progress.context, static_cast<std::int64_t>(part));
    for (; begun_ + kPartBytes <= written_; begun_ += kPartBytes)
      BASCULE_TRY(write_back(descriptor_.number(), begun_, kPartBytes, SYNC_FILE_RANGE_WRITE));
    BASCULE_TRY(settle(written_ - kBehindBytes, progress));
  }
  return ok_status();
}

Status OutputFile::settle(std::int64_t until, WriteProgress progress) noexcept {
  constexpr unsigned kToTheEnd = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (; settled_ + kPartBytes <= until; settled_ += kPartBytes) {
    BASCULE_TRY(write_back(descriptor_.number(), settled_, kPartBytes, kToTheEnd));
    if (progress.tell != nullptr) progress.tell(progress.context, 0);
  }
  return ok_status();
}

Status OutputFile::sync_and_close(WriteProgress progress) noexcept {
  BASCULE_TRY(settle(written_, progress));
  if (::fsync(descriptor_.number()) != 0) return disk_failed();
  return ::close(descriptor_.release()) == 0 ? ok_status() : disk_failed();
}

Status write_all(int descriptor, const void* data, std::size_t bytes) noexcept {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t part = ::write(descriptor, from, bytes);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return disk_failed();
    from += part;
    bytes -= static_cast<std::size_t>(part);
  }
  return ok_status();
}

Status append_all(int descriptor, const void* data, std::size_t bytes) noexcept {
  struct stat before = {};
  if (::fstat(descriptor, &before) != 0) return disk_failed();
  const Status written = write_all(descriptor, data, bytes);
  if (!written.ok()) (void)!::ftruncate(descriptor, before.st_size);
  return written;
}

Status make_folder(const char* path) noexcept {
  return ::mkdir(path, 0777) == 0 || errno == EEXIST ? ok_status() : disk_failed();
}

Status sync_folder(const char* path) noexcept {
  const Descriptor folder(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.is_open() && ::fsync(folder.number()) == 0 ? ok_status() : disk_failed();
}

Status write_synced(const char* path, std::string_view content, std::uint64_t* digest) noexcept {
  OutputFile file;
  BASCULE_TRY(file.create(path));
  BASCULE_TRY(file.write(content.data(), content.size()));
  if (digest != nullptr) *digest = file.digest();
  return file.sync_and_close();
}

Status write_durably(const char* folder, std::string_view name, std::string_view content) noexcept {
  const PathBuffer temporary = join(folder, name, kTemporaryPrefix);
  Status status = write_synced(temporary.c_str(), content);
  if (status.ok()) status = publish_file(folder, name);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Status publish_file(const char* folder, std::string_view name) noexcept {
  BASCULE_TRY(rename_path(join(folder, name, kTemporaryPrefix), join(folder, name)));
  return sync_folder(folder);
}

Status publish_folder(const char* parent, std::string_view name) noexcept {
  const PathBuffer temporary = join(parent, name, kTemporaryPrefix);
  const PathBuffer published = join(parent, name);
  const PathBuffer leaving = leaving_path(parent, name);
  BASCULE_TRY(sync_folder(temporary.c_str()));
  if (::rename(temporary.c_str(), published.c_str()) == 0) return sync_folder(parent);
  if (errno != ENOTEMPTY && errno != EEXIST) return disk_failed();
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, published.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system that cannot exchange: the old one steps aside first.
    if (errno != EINVAL && errno != ENOSYS) return disk_failed();
    BASCULE_TRY(remove_tree(leaving.c_str()));
    BASCULE_TRY(rename_path(published, leaving));
    BASCULE_TRY(rename_path(temporary, published));
  }
  BASCULE_TRY(sync_folder(parent));
  BASCULE_TRY(remove_tree(leaving.c_str()));
  return remove_tree(temporary.c_str());
}

Status visit_entries(const char* folder, Status (*visit)(void* context, const char* name) noexcept,
                     void* context) noexcept {
  const Descriptor opened(::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) return disk_failed();
  return visit_open_folder(opened.number(), [&](const char* name) noexcept { return visit(context, name); });
}

Status remove_tree(const char* path) noexcept { return remove_entry(AT_FDCWD, path, 0); }

Status remove_folder(const char* parent, std::string_view name) noexcept {
  const PathBuffer leaving = leaving_path(parent, name);
  BASCULE_TRY(remove_tree(leaving.c_str()));
  BASCULE_TRY(rename_path(join(parent, name), leaving));
  BASCULE_TRY(sync_folder(parent));
  return remove_tree(leaving.c_str());
}

void throw_if_failed(const Status& status, const std::string& where, const std::string& what) {
  if (status.ok()) return;
  const bool reading = status.code == StatusCode::kReadFailed;
  const int code = static_cast<int>(status.detail[reading ? 1 : 0]);
  throw Error{reading ? ErrorKind::kData : ErrorKind::kDisk, where, what + ": " + std::strerror(code),
              reading ? "" : advice_for_disk(code)};
}

std::vector<std::string> folder_entries(const std::string& folder) {
  std::error_code failure;
  std::vector<std::string> names = names_in(folder, &failure);
  if (failure && failure != std::errc::no_such_file_or_directory)
    throw Error{ErrorKind::kDisk, folder, "cannot be listed: " + failure.message(), advice_for_open(failure.value())};
  return names;
}

bool has_leftovers(const std::string& folder) {
  const std::vector<std::string> names = folder_entries(folder);
  return std::any_of(names.begin(), names.end(), is_leftover);
}

void remove_leftovers(const std::string& folder) {
  for (const std::string& name : folder_entries(folder)) {
    if (!is_leftover(name)) continue;
    const std::string path = folder + "/" + name;
    throw_if_failed(remove_tree(path.c_str()), path, "cannot be removed");
  }
}

void make_folders(const std::string& path) {
  std::filesystem::path reached;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    const std::filesystem::path parent = reached.empty() ? std::filesystem::path(".") : reached;
    reached /= part;
    if (part.empty() || is_folder(reached.string())) continue;
    throw_if_failed(make_folder(reached.c_str()), reached.string(), "the folder cannot be created");
    if (!is_folder(reached.string())) {
      throw Error{ErrorKind::kDisk, reached.string(), "is not a folder", ""};
    }
    throw_if_failed(sync_folder(parent.c_str()), parent.string(), "cannot be synced");
  }
}

void write_output_file(const std::string& path, const std::string& content) {
  struct stat there = {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    throw Error{ErrorKind::kDisk, path, "is not a regular file, and writing would replace it", "choose another path"};
  }
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  throw_if_failed(write_durably(folder.c_str(), name, content), path, "cannot be written");
}

}  // namespace bascule
