// SPDX-License-Identifier: Apache-2.0
// Lines of a descriptor as they come, so that those that are there can be worked on while others are still being
// written.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bascule {

// The most bytes of a line of the commands.
inline constexpr std::size_t kMostBytesOfALine = std::size_t{1} << 24;

class InputLines {
 public:
  explicit InputLines(int descriptor) : descriptor_(descriptor) {}

  // Up to `most` lines without their breaks ("\n" or "\r\n"): waits for the first, and takes of the others what is
  // there. None at the end. Throws Error kData for a line above max_bytes, and where the descriptor cannot be read.
  std::vector<std::string> read(std::size_t most, std::size_t max_bytes);

 private:
  // The next line; none if it has not come whole, or at the end.
  std::optional<std::string> take_line(std::size_t max_bytes);
  // Whether something was read. waits: until something can be.
  bool fill(bool waits);

  const int descriptor_;
  std::string pending_;
  std::size_t begin_ = 0;  // of what was not taken yet
  bool is_at_end_ = false;
};

}  // namespace bascule
