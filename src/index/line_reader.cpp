// SPDX-License-Identifier: Apache-2.0
#include "src/index/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/files/input_file.h"

namespace bascule {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Error cannot_read(const std::string& path, int reason) {
  return Error{ErrorKind::kData, path, file_problem(reason), advice_for_open(reason), reason};
}

// By its byte order mark, or by a zero byte beside each of the first characters.
bool is_utf16(std::string_view line) {
  const std::string_view mark = line.substr(0, 2);
  if (mark == "\xFF\xFE" || mark == "\xFE\xFF") return true;
  const std::size_t looked_at = std::min<std::size_t>(line.size(), 16) / 2 * 2;
  if (looked_at < 4) return false;
  std::size_t zeros[2] = {0, 0};  // at even places and at odd ones
  for (std::size_t i = 0; i < looked_at; ++i) zeros[i % 2] += line[i] == 0 ? 1 : 0;
  return (zeros[0] == looked_at / 2 && zeros[1] == 0) || (zeros[1] == looked_at / 2 && zeros[0] == 0);
}

// A small file is read at once: there may be many of them. One byte more finds its end.
std::size_t buffer_bytes(std::FILE* file) {
  struct stat facts = {};
  if (::fstat(::fileno(file), &facts) != 0) return kBufferBytes;
  return std::clamp<std::size_t>(static_cast<std::size_t>(facts.st_size) + 1, 4096, kBufferBytes);
}

std::FILE* open_file(const std::string& path) {
  const int file = open_regular_file(AT_FDCWD, path.c_str());
  if (file < 0) throw cannot_read(path, -file);
  std::FILE* const opened = ::fdopen(file, "rb");
  if (opened != nullptr) return opened;
  const int reason = errno;
  ::close(file);
  throw cannot_read(path, reason);
}

}  // namespace

LineReader::LineReader(const std::string& path, std::size_t longest)
    : path_(path), longest_(longest), file_(open_file(path)), buffer_(buffer_bytes(file_.get())) {}

bool LineReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t count = std::fread(buffer_.data() + end_, 1, buffer_.size() - end_, file_.get());
  if (count == 0 && std::ferror(file_.get()) != 0) throw cannot_read(path_, errno);
  digest_.add(buffer_.data() + end_, count);
  end_ += count;
  return count > 0;
}

bool LineReader::next(std::string_view* line) {
  std::size_t searched = 0;  // unread bytes known to hold no line break
  for (;;) {
    searched = find_line_break(unread(), searched);
    const std::string_view found = unread().substr(searched);
    const bool is_whole = found.size() >= kMostLineBreakBytes || (!found.empty() && found.front() == '\n');
    if (!is_whole && searched <= longest_ + kByteOrderMark.size() && fill()) continue;
    if (begin_ == end_) return false;
    *line = unread().substr(0, searched);
    const std::string_view rest = unread().substr(searched);  // which fill() may have moved
    line_break_ = rest.substr(0, rest.empty() ? 0 : line_break_bytes(rest));
    begin_ += searched + line_break_.size();
    offset_ = next_offset_;
    next_offset_ += static_cast<std::int64_t>(searched + line_break_.size());
    break;
  }
  ++line_;
  if (line_ == 1 && is_utf16(*line)) {
    throw Error{ErrorKind::kData, path_, "is UTF-16, not UTF-8", "convert it: iconv -f UTF-16 -t UTF-8"};
  }
  if (line_ == 1 && line->substr(0, kByteOrderMark.size()) == kByteOrderMark)
    line->remove_prefix(kByteOrderMark.size());
  return true;
}

}  // namespace bascule
