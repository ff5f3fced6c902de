// SPDX-License-Identifier: Apache-2.0
#include "src/commands/help_text.h"

#include <algorithm>

namespace bascule {
namespace {

// Where the last column of a line begins; with one column, where the line does.
std::size_t last_column(std::string_view line) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", first);
  const std::size_t second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return second == std::string_view::npos || second > kHelpColumns / 2 ? first : second;
}

std::string wrapped_line(std::string_view line) {
  const std::size_t indent = last_column(line);
  std::string text;
  while (line.size() > kHelpColumns - (text.empty() ? 0 : indent)) {
    const std::size_t room = kHelpColumns - (text.empty() ? 0 : indent);
    const std::size_t space = line.rfind(' ', room);
    // A word that is longer than the line stays whole.
    const std::size_t end = space == std::string_view::npos || (text.empty() && space < indent)
                                ? std::min(line.find(' ', room), line.size())
                                : space;
    text += (text.empty() ? "" : "\n" + std::string(indent, ' ')) + std::string(line.substr(0, end));
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  if (text.empty()) return std::string(line);
  return line.empty() ? text : text + "\n" + std::string(indent, ' ') + std::string(line);
}

}  // namespace

std::string wrapped(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += wrapped_line(text.substr(0, end));
    if (end < text.size()) lines += "\n";
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

}  // namespace bascule
