// SPDX-License-Identifier: Apache-2.0
// A file open for reading, anywhere in it and by many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/status.h"

namespace bascule {

// A file open for reading. Its descriptor keeps the content alive when the name is removed or replaced.
class InputFile {
 public:
  explicit InputFile(std::string path);  // throws Error{kData} unless it is a regular file that can be read

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }

  // Exactly `bytes` bytes from `offset` on; kReadFailed (detail: -1, errno; errno 0 if the file ended) otherwise.
  Status try_read(void* destination, std::int64_t offset, std::size_t bytes) const noexcept;
  void read(void* destination, std::int64_t offset, std::size_t bytes) const;  // the same; throws Error{kData}

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

// All of a file. Throws Error{kData} as InputFile does, and for one that is larger.
std::string text_of_file(const std::string& path, std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max());

// For messages, of a status that try_read() returned: "the file is truncated", "cannot be read: Input/output error".
std::string read_problem(const Status& status);

}  // namespace bascule
