// SPDX-License-Identifier: Apache-2.0
#include "src/base/shard_list.h"

#include <cstddef>

namespace bascule {

bool names_shards(std::string_view path) {
  constexpr std::string_view kEnding = ".tar";
  return path.size() > kEnding.size() && path.substr(path.size() - kEnding.size()) == kEnding;
}

std::vector<std::string_view> list_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
    if (text[i] != ',' || depth != 0) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace bascule
