// SPDX-License-Identifier: Apache-2.0
#include "src/index/tar_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "src/files/input_file.h"

namespace bascule {
namespace {

constexpr std::size_t kBlock = 512;
// Read at once: the small members between two pictures fit, and little of a large picture is read for nothing.
constexpr std::size_t kWindowBytes = 16 * 1024;
constexpr std::uint64_t kMostContents = std::uint64_t{16} << 20;
constexpr std::uint64_t kMostExtended = std::uint64_t{1} << 20;  // names and records of an extended header

// A field of a header: offset and length.
struct Field {
  std::size_t offset;
  std::size_t bytes;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr std::size_t kType = 156;

// Up to the first zero byte.
std::string_view text_of(const unsigned char* header, Field field) {
  const char* const begin = static_cast<const char*>(static_cast<const void*>(header + field.offset));
  return std::string_view(begin, ::strnlen(begin, field.bytes));
}

// Octal digits between blanks, or, where the first bit is set, a number of 95 bits with sign. False: neither, or more
// than 63 bits.
bool number_of(const unsigned char* header, Field field, std::uint64_t* value) {
  const unsigned char* const bytes = header + field.offset;
  *value = 0;
  if ((bytes[0] & 0x80) != 0) {
    if (bytes[0] != 0x80) return false;  // negative, or too large
    for (std::size_t i = 1; i < field.bytes; ++i) {
      if (*value >> 55 != 0) return false;
      *value = *value << 8 | bytes[i];
    }
    return true;
  }
  std::size_t i = 0;
  while (i < field.bytes && bytes[i] == ' ') ++i;
  for (; i < field.bytes && bytes[i] >= '0' && bytes[i] <= '7'; ++i)
    *value = *value << 3 | (bytes[i] - std::uint64_t{'0'});
  for (; i < field.bytes; ++i) {
    if (bytes[i] != ' ' && bytes[i] != 0) return false;
  }
  return true;
}

// The sum of the header's bytes with blanks for the sum itself. Some old writers took bytes as signed.
bool checksum_holds(const unsigned char* header) {
  std::uint64_t written = 0;
  if (!number_of(header, kChecksum, &written)) return false;
  std::int64_t plain = 0, with_sign = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.bytes;
    const unsigned char byte = own ? ' ' : header[i];
    plain += byte;
    with_sign += byte < 128 ? byte : byte - 256;
  }
  const std::int64_t sum = static_cast<std::int64_t>(written);
  return sum == plain || sum == with_sign;
}

bool is_zero(const unsigned char* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](unsigned char byte) { return byte == 0; });
}

std::uint64_t blocks_of(std::uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

}  // namespace

TarReader::TarReader(const std::string& path) : path_(path) {
  const int opened = open_regular_file(AT_FDCWD, path.c_str());
  file_ = Descriptor(opened);
  struct stat facts = {};
  const int reason = opened < 0 ? -opened : ::fstat(opened, &facts) != 0 ? errno : 0;
  if (reason != 0) throw Error{ErrorKind::kData, path, file_problem(reason), advice_for_open(reason), reason};
  bytes_ = static_cast<std::uint64_t>(facts.st_size);
}

Error TarReader::damaged(const std::string& what, const std::string& what_to_do) const {
  return Error{ErrorKind::kData, last_name_.empty() ? path_ : path_ + ": " + last_name_, what, what_to_do};
}

// The bytes from `offset` on, which the file must have; reads ahead.
const unsigned char* TarReader::window(std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t window_end = window_begin_ + window_bytes_;
  if (offset >= window_begin_ && offset + bytes <= window_end) return window_.data() + (offset - window_begin_);
  window_.resize(std::max(kWindowBytes, bytes));
  window_begin_ = offset;
  window_bytes_ = 0;
  while (window_bytes_ < bytes) {
    const ::ssize_t got = ::pread(file_.number(), window_.data() + window_bytes_, window_.size() - window_bytes_,
                                  static_cast<::off_t>(offset + window_bytes_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw damaged(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) throw damaged("became shorter while it was read");
    window_bytes_ += static_cast<std::size_t>(got);
  }
  return window_.data();
}

bool TarReader::next(TarMember* member) {
  forget_overrides();
  for (;;) {
    char type = 0;
    if (!read_header(member, &type)) {
      check_end();
      return false;
    }
    if (type == 'x' || type == 'L') {
      if (member->bytes > kMostExtended)
        throw damaged("an extended header of " + std::to_string(member->bytes) + " bytes");
      if (type == 'x') {
        read_pax(*member);
      } else {
        const std::string_view name = contents(*member);
        long_name_ = name.substr(0, name.find('\0'));
      }
      continue;
    }
    if (type == 'g' || type == 'K') continue;  // of all members alike; of a link
    if (type == 'S') throw damaged("is a sparse file", "write the shard without --sparse");
    if (type == '0' || type == '\0' || type == '7') {
      // In old tar a folder is a file whose name says so.
      if (!member->name.empty() && member->name.back() != '/') return true;
      if (member->name.empty()) throw damaged("a member without a name");
    }
    forget_overrides();
  }
}

void TarReader::forget_overrides() {
  long_name_.clear();
  has_size_ = false;
}

bool TarReader::read_header(TarMember* member, char* type) {
  if (next_ + kBlock > bytes_) {
    throw damaged("the shard ends here without an end marker: it is truncated", "copy or write it again");
  }
  const unsigned char* const header = window(next_, kBlock);
  if (is_zero(header, kBlock)) return false;
  if (!checksum_holds(header)) {
    throw damaged("the header at byte " + std::to_string(next_) + (last_name_.empty() ? "" : ", after this member,") +
                      " has a wrong checksum: the shard is damaged or not a tar file",
                  "copy or write it again");
  }
  *type = static_cast<char>(header[kType]);
  const bool is_extension = *type == 'x' || *type == 'g' || *type == 'L' || *type == 'K';
  if (!is_extension && !long_name_.empty()) {
    member->name = long_name_;
  } else {
    member->name = text_of(header, kName);
    const bool is_ustar = std::memcmp(header + kMagic.offset, "ustar\0", kMagic.bytes) == 0;
    const std::string_view prefix = is_ustar ? text_of(header, kPrefix) : std::string_view();
    if (!prefix.empty()) member->name = std::string(prefix) + "/" + member->name;
  }
  if (!is_extension) last_name_ = member->name;
  std::uint64_t bytes = 0;
  if (!number_of(header, kSize, &bytes)) throw damaged("its size is not a number");
  if (!is_extension && has_size_) bytes = size_;
  // Links, devices and folders have no contents, whatever their size says.
  if (*type >= '1' && *type <= '6') bytes = 0;
  member->offset = next_ + kBlock;
  member->bytes = bytes;
  const std::uint64_t left = bytes_ - member->offset;
  if (bytes > left || blocks_of(bytes) > blocks_of(left)) {
    throw damaged("has " + std::to_string(bytes) + " bytes, of which the shard holds " + std::to_string(left) +
                      ": it is truncated",
                  "copy or write it again");
  }
  next_ = member->offset + blocks_of(bytes);
  return true;
}

std::string_view TarReader::contents(const TarMember& member) {
  if (member.bytes > kMostContents) {
    throw damaged("is text of " + std::to_string(member.bytes) + " bytes: more than 16 MiB");
  }
  if (member.bytes == 0) return {};
  const unsigned char* const begin = window(member.offset, static_cast<std::size_t>(member.bytes));
  return std::string_view(static_cast<const char*>(static_cast<const void*>(begin)),
                          static_cast<std::size_t>(member.bytes));
}

// Records "LENGTH KEY=VALUE\n", LENGTH being that of the whole record in decimal digits.
void TarReader::read_pax(const TarMember& records) {
  std::string_view rest = contents(records);
  const auto broken = [this] { return damaged("the extended header after this member is malformed"); };
  while (!rest.empty()) {
    std::size_t length = 0;
    const auto [end, failure] =
        std::from_chars(rest.data(), rest.data() + std::min<std::size_t>(rest.size(), 10), length);
    const std::size_t digits = static_cast<std::size_t>(end - rest.data());
    if (failure != std::errc() || digits + 3 > length || length > rest.size() || rest[digits] != ' ' ||
        rest[length - 1] != '\n') {
      throw broken();
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) throw broken();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") {
      if (value.find('\0') != std::string_view::npos) throw broken();
      long_name_ = value;
    } else if (key == "size") {
      const auto [size_end, size_failure] = std::from_chars(value.data(), value.data() + value.size(), size_);
      if (size_failure != std::errc() || size_end != value.data() + value.size()) throw broken();
      has_size_ = true;
    } else if (key.substr(0, 11) == "GNU.sparse.") {
      throw damaged("the member after this one is a sparse file", "write the shard without --sparse");
    }
    rest.remove_prefix(length);
  }
}

// Behind the first block of zeros nothing but zeros: a second block of them, and what fills the last record of the
// tape.
void TarReader::check_end() {
  std::uint64_t place = next_;
  while (place < bytes_) {
    const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(kWindowBytes, bytes_ - place));
    if (!is_zero(window(place, count), count)) {
      throw damaged(
          "data follows the end marker after this member: the shard consists of joined tar files, or is damaged",
          "list the shards separately");
    }
    place += count;
  }
}

}  // namespace bascule
