// SPDX-License-Identifier: Apache-2.0
#include "src/index/shard_names.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "src/base/error.h"
#include "src/base/shard_list.h"

namespace bascule {
namespace {

constexpr std::size_t kMostShards = 100'000;

class Expander {
 public:
  explicit Expander(const std::string& path) : path_(path) {}

  // Every name that the text stands for.
  std::vector<std::string> expand(std::string_view text, int depth) const {
    if (depth > 16) throw refuse("braces are nested too deep");
    const std::size_t open = text.find('{');
    if (open == std::string_view::npos) {
      if (text.find('}') != std::string_view::npos) throw refuse("a } without a {");
      return {std::string(text)};
    }
    const std::size_t close = closing(text, open);
    const std::string_view before = text.substr(0, open);
    if (before.find('}') != std::string_view::npos) throw refuse("a } without a {");
    const std::vector<std::string> middles = inside(text.substr(open + 1, close - open - 1), depth);
    const std::vector<std::string> rests = expand(text.substr(close + 1), depth);
    if (middles.size() * rests.size() > kMostShards) throw too_many();
    std::vector<std::string> names;
    for (const std::string& middle : middles) {
      for (const std::string& rest : rests) names.push_back(std::string(before) + middle + rest);
    }
    return names;
  }

  Error too_many() const { return refuse("more than " + std::to_string(kMostShards) + " shards"); }
  Error refuse(const std::string& what) const {
    return Error{ErrorKind::kSettings, path_, what, "write shards as \"shard-{000..127}.tar\" or \"a.tar,b.tar\""};
  }

 private:
  std::size_t closing(std::string_view text, std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return i;
    }
    throw refuse("a { without a }");
  }

  std::vector<std::string> inside(std::string_view text, int depth) const {
    const std::vector<std::string_view> parts = list_parts(text);
    const std::size_t dots = text.find("..");
    if (parts.size() == 1 && dots != std::string_view::npos && text.find('{') == std::string_view::npos) {
      return range(text.substr(0, dots), text.substr(dots + 2));
    }
    if (parts.size() == 1) throw refuse("{" + std::string(text) + "} is neither a range a..b nor a list a,b");
    std::vector<std::string> names;
    for (const std::string_view one : parts) {
      for (std::string& name : expand(one, depth + 1)) names.push_back(std::move(name));
      if (names.size() > kMostShards) throw too_many();
    }
    return names;
  }

  std::vector<std::string> range(std::string_view first_text, std::string_view last_text) const {
    const std::uint32_t first = number(first_text), last = number(last_text);
    if (last < first)
      throw refuse("the range {" + std::string(first_text) + ".." + std::string(last_text) + "} counts down");
    if (last - first >= kMostShards) throw too_many();
    const auto is_padded = [](std::string_view text) { return text.size() > 1 && text[0] == '0'; };
    const std::size_t width =
        is_padded(first_text) || is_padded(last_text) ? std::max(first_text.size(), last_text.size()) : 0;
    std::vector<std::string> names;
    for (std::uint32_t i = first; i <= last; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
      names.push_back(std::move(digits));
    }
    return names;
  }

  std::uint32_t number(std::string_view text) const {
    std::uint32_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size() || text.size() > 9) {
      throw refuse("\"" + std::string(text) + "\" is not a number of a range");
    }
    return value;
  }

  const std::string& path_;
};

}  // namespace

std::vector<std::string> expand_shards(const std::string& path) {
  const Expander expander(path);
  std::vector<std::string> names;
  for (const std::string_view one : list_parts(path)) {
    for (std::string& name : expander.expand(one, 0)) names.push_back(std::move(name));
    if (names.size() > kMostShards) throw expander.too_many();
  }
  for (const std::string& name : names) {
    if (!names_shards(name)) throw expander.refuse("\"" + name + "\" does not end with .tar");
  }
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw expander.refuse("\"" + *twice + "\" is named twice");
  return names;
}

}  // namespace bascule
