// SPDX-License-Identifier: Apache-2.0
#include "src/base/shown_path.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace bascule {

std::string shown_path(std::string_view path) {
  char buffer[PATH_MAX];
  if (path.empty() || path[0] != '/' || getcwd(buffer, sizeof buffer) == nullptr) return std::string(path);
  const std::string_view here = buffer;
  if (path == here) return ".";
  // Past the slash behind the last folder that both have in common.
  std::size_t common = 0;
  const std::size_t most = std::min(path.size(), here.size());
  for (std::size_t i = 0; i < most && path[i] == here[i]; ++i) {
    if (path[i] == '/') common = i + 1;
  }
  if (most == here.size() && path.size() > most && path.substr(0, most) == here && path[most] == '/') common = most + 1;
  std::string relative;
  if (common <= here.size() && here.size() > 1) {
    const std::string_view above = here.substr(common);
    for (auto steps = 1 + std::count(above.begin(), above.end(), '/'); steps > 0; --steps) relative += "../";
  }
  relative += path.substr(common);
  return relative.size() < path.size() ? relative : std::string(path);
}

std::string shown_list(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > kMostNamed ? text + " and " + std::to_string(names.size() - kMostNamed) + " more" : text;
}

}  // namespace bascule
