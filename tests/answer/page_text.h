// SPDX-License-Identifier: Apache-2.0
// What stands in the text of a page, and whether its elements are closed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bascule::test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// "" if every element that must be closed is closed in order, else what is wrong. Knows our pages: attribute values are
// in double quotes, the style sheet has no "<".
inline std::string unbalanced(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at)) {
    std::size_t end = at;
    for (bool quoted = false; end < html.size() && (quoted || html[end] != '>'); ++end) {
      if (html[end] == '"') quoted = !quoted;
    }
    if (end >= html.size()) return "no end: " + html.substr(at, 60);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /\n", 1));
    at = end;
    if (name == "!DOCTYPE" || name == "meta" || name == "br" || name == "wbr" || tag.back() == '/') continue;
    if (name[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "<" + name + "> where " + (open.empty() ? "nothing" : open.back()) + " is open";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

}  // namespace bascule::test
