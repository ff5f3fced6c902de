// SPDX-License-Identifier: Apache-2.0
// Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16 (its
// end, and that of zip64), 4.5.3 (zip64 sizes). All numbers are little-endian.
#include "src/checkpoint/torch_pickle.h"

#include <algorithm>
#include <vector>

#include "src/base/error.h"

namespace bascule {
namespace {

constexpr std::int64_t kEndBytes = 22;
constexpr std::int64_t kLocatorBytes = 20;
constexpr std::int64_t kEnd64Bytes = 56;
constexpr std::int64_t kCentralBytes = 46;
constexpr std::int64_t kLocalBytes = 30;
constexpr std::int64_t kMaxCommentBytes = 65535;
constexpr std::int64_t kMaxDirectoryBytes = std::int64_t{1} << 28;
constexpr std::uint64_t kIn64 = 0xffffffff;  // "the true value is in the zip64 field"

[[noreturn]] void bad_zip(const InputFile& file, const std::string& what) {
  throw Error{ErrorKind::kData, file.path(), what, "the file is damaged or was not written by torch.save"};
}

// Bytes of the file with little-endian access; every access is checked.
class Bytes {
 public:
  Bytes(const InputFile& file, std::int64_t offset, std::int64_t count) : file_(file) {
    if (offset < 0 || count < 0 || offset > file.size() || count > file.size() - offset) {
      bad_zip(file, "is a zip archive whose directory points outside the file: it is truncated");
    }
    bytes_.resize(static_cast<std::size_t>(count));
    file.read(bytes_.data(), offset, bytes_.size());
  }

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

  std::uint64_t number(std::int64_t at, int width) const {
    check(at, width);
    std::uint64_t value = 0;
    for (int i = width; i-- > 0;) value = value << 8 | bytes_[static_cast<std::size_t>(at + i)];
    return value;
  }

  std::string text(std::int64_t at, std::int64_t length) const {
    check(at, length);
    const auto from = bytes_.begin() + at;
    return std::string(from, from + length);
  }

 private:
  void check(std::int64_t at, std::int64_t width) const {
    if (at > size() || width > size() - at) bad_zip(file_, "is a zip archive with a directory that is truncated");
  }

  const InputFile& file_;
  std::vector<unsigned char> bytes_;
};

std::int64_t to_offset(const InputFile& file, std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(file.size())) {
    bad_zip(file, "is a zip archive with an offset of " + std::to_string(value) + ", beyond its " +
                      std::to_string(file.size()) + " bytes");
  }
  return static_cast<std::int64_t>(value);
}

struct Directory {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint64_t entries = 0;
};

Directory find_directory(const InputFile& file) {
  const std::int64_t tail_bytes = std::min(file.size(), kEndBytes + kMaxCommentBytes);
  const std::int64_t tail_start = file.size() - tail_bytes;
  const Bytes tail(file, tail_start, tail_bytes);
  std::int64_t at = tail_bytes - kEndBytes;
  while (at >= 0 && tail.number(at, 4) != 0x06054b50) --at;
  if (at < 0) bad_zip(file, "has no zip directory at its end: it is truncated");

  std::uint64_t entries = tail.number(at + 10, 2);
  std::uint64_t bytes = tail.number(at + 12, 4);
  std::uint64_t offset = tail.number(at + 16, 4);
  const std::int64_t locator_at = tail_start + at - kLocatorBytes;
  if (locator_at >= 0) {
    const Bytes locator(file, locator_at, kLocatorBytes);
    if (locator.number(0, 4) == 0x07064b50) {
      const Bytes end64(file, to_offset(file, locator.number(8, 8)), kEnd64Bytes);
      if (end64.number(0, 4) != 0x06064b50) bad_zip(file, "is a zip64 archive without its directory");
      entries = end64.number(32, 8);
      bytes = end64.number(40, 8);
      offset = end64.number(48, 8);
    }
  }
  return Directory{to_offset(file, offset), to_offset(file, bytes), entries};
}

// Sizes and offset of a directory entry that stand in its zip64 field, which holds those that did not fit, in this
// order.
void widen_from_zip64(const Bytes& directory, std::int64_t extra_at, std::int64_t extra_bytes, std::uint64_t* size,
                      std::uint64_t* stored_size, std::uint64_t* local_offset) {
  for (std::int64_t at = extra_at; at + 4 <= extra_at + extra_bytes;) {
    const std::uint64_t id = directory.number(at, 2);
    const auto bytes = static_cast<std::int64_t>(directory.number(at + 2, 2));
    std::int64_t field = at + 4;
    at = field + bytes;
    if (id != 1) continue;
    for (std::uint64_t* value : {size, stored_size, local_offset}) {
      if (*value != kIn64) continue;
      *value = directory.number(field, 8);
      field += 8;
    }
  }
}

std::int64_t content_offset(const InputFile& file, std::int64_t local_offset, const std::string& name) {
  const Bytes local(file, local_offset, kLocalBytes);
  if (local.number(0, 4) != 0x04034b50)
    bad_zip(file, "entry \"" + name + "\" is not where the zip directory places it");
  return local_offset + kLocalBytes + static_cast<std::int64_t>(local.number(26, 2) + local.number(28, 2));
}

}  // namespace

std::map<std::string, ZipEntry> read_zip_entries(const InputFile& file) {
  const Directory place = find_directory(file);
  if (place.bytes > kMaxDirectoryBytes) bad_zip(file, "is a zip archive with a directory of more than 256 MiB");
  const Bytes directory(file, place.offset, place.bytes);
  std::map<std::string, ZipEntry> entries;
  std::int64_t at = 0;
  for (std::uint64_t i = 0; i < place.entries; ++i) {
    if (directory.number(at, 4) != 0x02014b50) bad_zip(file, "is a zip archive with a damaged directory");
    const std::uint64_t flags = directory.number(at + 8, 2);
    const std::uint64_t method = directory.number(at + 10, 2);
    std::uint64_t stored_size = directory.number(at + 20, 4);
    std::uint64_t size = directory.number(at + 24, 4);
    const auto name_bytes = static_cast<std::int64_t>(directory.number(at + 28, 2));
    const auto extra_bytes = static_cast<std::int64_t>(directory.number(at + 30, 2));
    const auto comment_bytes = static_cast<std::int64_t>(directory.number(at + 32, 2));
    std::uint64_t local_offset = directory.number(at + 42, 4);
    const std::string name = directory.text(at + kCentralBytes, name_bytes);
    widen_from_zip64(directory, at + kCentralBytes + name_bytes, extra_bytes, &size, &stored_size, &local_offset);
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;

    if ((flags & 1) != 0) bad_zip(file, "entry \"" + name + "\" is encrypted");
    if (method != 0 || size != stored_size) bad_zip(file, "entry \"" + name + "\" is compressed");
    ZipEntry entry{content_offset(file, to_offset(file, local_offset), name), to_offset(file, size)};
    if (entry.offset > file.size() || entry.bytes > file.size() - entry.offset) {
      bad_zip(file, "entry \"" + name + "\" reaches beyond the end: the file is truncated");
    }
    if (!entries.emplace(name, entry).second) bad_zip(file, "entry \"" + name + "\" occurs twice");
  }
  return entries;
}

}  // namespace bascule
