// SPDX-License-Identifier: Apache-2.0
#include "src/ask/input_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/error.h"

namespace bascule {
namespace {

constexpr char kWhere[] = "standard input";

}  // namespace

std::optional<std::string> InputLines::take_line(std::size_t max_bytes) {
  const std::size_t end = pending_.find('\n', begin_);
  if (std::min(end, pending_.size()) - begin_ > max_bytes)
    throw Error(ErrorKind::kData, kWhere, "a line has more than " + std::to_string(max_bytes) + " bytes");
  if (end == std::string::npos && !(is_at_end_ && begin_ < pending_.size())) return std::nullopt;
  std::string line = pending_.substr(begin_, end == std::string::npos ? end : end - begin_);
  begin_ = end == std::string::npos ? pending_.size() : end + 1;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

bool InputLines::fill(bool waits) {
  pending_.erase(0, begin_);
  begin_ = 0;
  while (!is_at_end_) {
    pollfd entry = {descriptor_, POLLIN, 0};
    const int ready = ::poll(&entry, 1, waits ? -1 : 0);
    if (ready == 0) return false;
    char block[1 << 16];
    const ssize_t count = ready < 0 ? -1 : ::read(descriptor_, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(ErrorKind::kData, kWhere, std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0) {
      is_at_end_ = true;
      return true;
    }
    pending_.append(block, static_cast<std::size_t>(count));
    return true;
  }
  return false;
}

std::vector<std::string> InputLines::read(std::size_t most, std::size_t max_bytes) {
  std::vector<std::string> lines;
  while (lines.size() < most) {
    if (std::optional<std::string> line = take_line(max_bytes)) {
      lines.push_back(std::move(*line));
      continue;
    }
    if (!fill(lines.empty())) break;
  }
  return lines;
}

}  // namespace bascule
