// SPDX-License-Identifier: Apache-2.0
// Reads a text file line by line through one buffer, and hashes its bytes on the way. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/digest.h"

namespace bascule {

class LineReader {
 public:
  // Throws Error (kData) if the file cannot be opened, or is none: a folder, a pipe. `longest`: of lines with more
  // bytes next() gives at least longest + 1, and the rest in further pieces: a file without line breaks is not held
  // whole.
  explicit LineReader(const std::string& path, std::size_t longest = kAnyLength);

  // The next line without its line break, which src/base/utf8.h tells; a byte order mark at the front of the file
  // is left out. False after the last line. The view holds until the next call. Throws Error (kData) if reading fails,
  // or the file is UTF-16.
  bool next(std::string_view* line);
  // The number of the line that next() gave last, from 1.
  std::int64_t line() const { return line_; }
  // Where that line begins in the file.
  std::int64_t offset() const { return offset_; }
  // The bytes that ended that line; empty at the end of the file, and between the pieces of a line that is too long.
  // Holds until the next call of next().
  std::string_view line_break() const { return line_break_; }
  // XXH3 of the bytes read so far; of the whole file once next() has returned false.
  std::uint64_t digest() const { return digest_.value(); }

 private:
  static constexpr std::size_t kAnyLength = std::numeric_limits<std::size_t>::max() / 2;
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  // Reads on behind the unread bytes; false at the end of the file.
  bool fill();
  std::string_view unread() const { return {buffer_.data() + begin_, end_ - begin_}; }

  std::string path_;
  std::size_t longest_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  Digest digest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // unread bytes of the buffer
  std::size_t end_ = 0;
  std::string_view line_break_;
  std::int64_t line_ = 0, offset_ = 0, next_offset_ = 0;
};

}  // namespace bascule
