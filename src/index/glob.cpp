// SPDX-License-Identifier: Apache-2.0
#include "src/index/glob.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/files/input_file.h"

namespace bascule {
namespace {

using Characters = std::vector<std::uint32_t>;

// Above every code point: a byte that belongs to no character.
constexpr std::uint32_t kStrayByte = 0x110000;

Characters characters_of(std::string_view text) {
  Characters characters;
  while (!text.empty()) {
    const std::size_t valid = first_invalid_utf8(text);
    for (std::size_t at = 0; at < valid;) {
      const Utf8Character character = utf8_character(text, at);
      characters.push_back(character.code_point);
      at += character.bytes;
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    characters.push_back(kStrayByte + static_cast<unsigned char>(text[0]));
    text.remove_prefix(1);
  }
  return characters;
}

// One sign of a pattern: where it ends, and whether it takes the character.
struct Sign {
  std::size_t end;
  bool takes;
};

// The set that begins behind a `[` at `open`; nothing where it is not closed.
std::optional<Sign> read_set(const Characters& pattern, std::size_t open, std::uint32_t character) {
  std::size_t at = open + 1;
  const bool is_outside = at < pattern.size() && pattern[at] == '!';
  if (is_outside) ++at;
  const std::size_t first = at;
  const auto close =
      std::find(pattern.begin() + static_cast<std::ptrdiff_t>(std::min(first + 1, pattern.size())), pattern.end(), ']');
  if (close == pattern.end()) return std::nullopt;
  const auto end = static_cast<std::size_t>(close - pattern.begin());
  bool is_in = false;
  while (at < end) {
    const bool is_range = at + 2 < end && pattern[at + 1] == '-';
    const std::uint32_t last = pattern[is_range ? at + 2 : at];
    is_in = is_in || (pattern[at] <= character && character <= last);
    at += is_range ? 3 : 1;
  }
  return Sign{end + 1, is_in != is_outside};
}

Sign read_sign(const Characters& pattern, std::size_t at, std::uint32_t character) {
  if (pattern[at] == '?') return {at + 1, true};
  if (pattern[at] == '[') {
    if (const std::optional<Sign> set = read_set(pattern, at, character)) return *set;
  }
  return {at + 1, pattern[at] == character};
}

Error unreadable_folder(const std::string& path, int reason) {
  return Error{ErrorKind::kData, path, file_problem(reason), "every folder along the pattern must be readable"};
}

// Names in a folder; none where there is no such folder.
std::vector<std::string> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.empty() ? "." : folder.c_str()), &::closedir);
  std::vector<std::string> names;
  if (!open) {
    if (errno == ENOENT || errno == ENOTDIR) return names;
    throw unreadable_folder(folder, errno);
  }
  for (errno = 0; const dirent* const entry = ::readdir(open.get()); errno = 0) names.emplace_back(entry->d_name);
  if (errno != 0) throw unreadable_folder(folder, errno);
  return names;
}

class GlobWalk {
 public:
  explicit GlobWalk(std::string_view pattern) {
    while (!pattern.empty()) {
      const std::size_t slash = std::min(pattern.find('/'), pattern.size());
      if (slash > 0) parts_.emplace_back(pattern.substr(0, slash));
      is_folder_ = slash < pattern.size() && slash + 1 == pattern.size();
      pattern.remove_prefix(std::min(slash + 1, pattern.size()));
    }
  }

  // folder: empty, or with its slash at the end.
  void run(const std::string& folder, std::size_t number = 0) {
    const std::string& part = parts_[number];
    if (!has_glob_sign(part)) return take(folder + part, number);
    for (const std::string& name : names_in(folder)) {
      if (name != "." && name != ".." && matches_glob(part, name)) take(folder + name, number);
    }
  }

  std::vector<std::string> sorted() {
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  void take(const std::string& path, std::size_t number) {
    if (number + 1 < parts_.size()) return run(path + "/", number + 1);
    struct stat facts = {};
    if (::lstat(path.c_str(), &facts) != 0) return;
    if (!is_folder_ || is_folder(path)) found_.push_back(path);
  }

  std::vector<std::string> parts_;
  bool is_folder_ = false;  // the pattern ends with a slash
  std::vector<std::string> found_;
};

}  // namespace

bool has_glob_sign(std::string_view path) { return path.find_first_of("*?[") != std::string_view::npos; }

// After a mismatch the last `*` takes one character more; what an earlier one takes need never change.
bool matches_glob(std::string_view pattern_text, std::string_view name_text) {
  if (!name_text.empty() && name_text[0] == '.' && (pattern_text.empty() || pattern_text[0] != '.')) return false;
  const Characters pattern = characters_of(pattern_text), name = characters_of(name_text);
  std::size_t p = 0, n = 0;
  std::optional<std::size_t> behind_star;
  std::size_t star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      behind_star = ++p;
      star_end = n;
      continue;
    }
    const Sign sign = p < pattern.size() ? read_sign(pattern, p, name[n]) : Sign{p, false};
    if (sign.takes) {
      p = sign.end;
      ++n;
    } else if (behind_star) {
      p = *behind_star;
      n = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> expand_glob(const std::string& pattern, const std::string& start) {
  // ".." of the pattern goes up in the text, as in any other path.
  const std::string normal = std::filesystem::path(pattern).lexically_normal().string();
  const bool is_absolute = !normal.empty() && normal[0] == '/';
  const std::string folder = is_absolute ? "/" : start.empty() ? "" : start + (start.back() == '/' ? "" : "/");
  for (const std::filesystem::path& part : std::filesystem::path(normal)) {
    if (part == "**") {
      throw Error{ErrorKind::kSettings, pattern, "** for folders of any depth is not supported",
                  "write one * for each level, or a list of patterns"};
    }
  }
  GlobWalk walk(normal);
  walk.run(folder);
  std::vector<std::string> found = walk.sorted();
  for (std::string& path : found) path = std::filesystem::path(path).lexically_normal().string();
  return found;
}

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
    std::vector<std::string> names;
    for (const std::string& middle : middles) {
      for (const std::string& rest : rests) add(&names, std::string(before) + middle + rest);
    }
    return names;
  }

  // Of all parts of a list.
  std::vector<std::string> expand_parts(std::string_view text, int depth) const {
    std::vector<std::string> names;
    for (const std::string_view one : list_parts(text)) {
      for (std::string& name : expand(one, depth)) add(&names, std::move(name));
    }
    return names;
  }

  Error refuse(const std::string& what) const {
    return Error{ErrorKind::kSettings, path_, what, "write shards as \"shard-{000..127}.tar\" or \"a.tar,b.tar\""};
  }

 private:
  void add(std::vector<std::string>* names, std::string name) const {
    if (names->size() == kMostShards) throw refuse("more than " + std::to_string(kMostShards) + " shards");
    names->push_back(std::move(name));
  }

  std::size_t closing(std::string_view text, std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return i;
    }
    throw refuse("a { without a }");
  }

  std::vector<std::string> inside(std::string_view text, int depth) const {
    const bool is_list = list_parts(text).size() > 1;
    const std::size_t dots = text.find("..");
    if (!is_list && dots != std::string_view::npos && text.find('{') == std::string_view::npos) {
      return range(text.substr(0, dots), text.substr(dots + 2));
    }
    if (!is_list) throw refuse("{" + std::string(text) + "} is neither a range a..b nor a list a,b");
    return expand_parts(text, depth + 1);
  }

  std::vector<std::string> range(std::string_view first_text, std::string_view last_text) const {
    const std::uint32_t first = number(first_text), last = number(last_text);
    if (last < first)
      throw refuse("the range {" + std::string(first_text) + ".." + std::string(last_text) + "} counts down");
    const auto is_padded = [](std::string_view text) { return text.size() > 1 && text[0] == '0'; };
    const std::size_t width =
        is_padded(first_text) || is_padded(last_text) ? std::max(first_text.size(), last_text.size()) : 0;
    std::vector<std::string> names;
    for (std::uint32_t i = first; i <= last; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
      add(&names, std::move(digits));
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
  std::vector<std::string> names = expander.expand_parts(path, 0);
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
