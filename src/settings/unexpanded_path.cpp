// SPDX-License-Identifier: Apache-2.0
#include "src/settings/unexpanded_path.h"

#include <cstddef>

namespace bascule {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

}  // namespace

std::string_view unexpanded_part(std::string_view path) {
  if (!path.empty() && path[0] == '~') return path.substr(0, path.find('/'));
  for (std::size_t at = path.find('$'); at != std::string_view::npos; at = path.find('$', at + 1)) {
    std::size_t end = at + 1;
    const bool braced = end < path.size() && path[end] == '{';
    if (braced) ++end;
    if (end >= path.size() || !is_letter(path[end])) continue;
    while (end < path.size() && is_name_character(path[end])) ++end;
    if (braced && end < path.size() && path[end] == '}') ++end;
    return path.substr(at, end - at);
  }
  return {};
}

std::string unexpanded_problem(std::string_view path) {
  const std::string_view part = unexpanded_part(path);
  if (part.empty()) return "";
  return "\"" + std::string(part) + "\" is not expanded: only a shell does that";
}

}  // namespace bascule
