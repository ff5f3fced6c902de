// SPDX-License-Identifier: Apache-2.0
#include "src/base/paths.h"

#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "src/base/error.h"

namespace bascule {

namespace fs = std::filesystem;

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

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (&word == &words.front() ? "" : separator) + word;
  return text;
}

std::string shown_list(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return joined(names);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most));
  return joined(first) + " and " + std::to_string(names.size() - most) + " more";
}

std::string absolute_path(const std::string& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::vector<std::string> names_in(const std::string& folder, std::error_code* failure) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  if (failure != nullptr) *failure = failed;
  return names;
}

void require_model_folder(const std::string& folder) {
  struct stat facts = {};
  if (::stat(folder.c_str(), &facts) == 0 || errno != ENOENT) return;
  throw Error(
      ErrorKind::kData, folder, "there is no such folder",
      "models are local folders, and Bascule downloads nothing: `hf download NAME --local-dir FOLDER` downloads "
      "one from the hub");
}

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

std::string program_file() {
  // As it was given to the system, which found it from the folder that is still the current one.
  const auto* const started_as = reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT
  char* const real = started_as != nullptr ? realpath(started_as, nullptr) : nullptr;
  if (real == nullptr) throw Error(ErrorKind::kInternal, "this program", "its own file cannot be found");
  std::string path = real;
  std::free(real);
  return path;
}

std::string tree_of_program() { return fs::path(program_file()).parent_path().parent_path().string(); }

std::string path_from(const std::string& start, std::string_view path) {
  std::string whole = (fs::path(start) / path).lexically_normal().string();
  if (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

std::string path_inside(const std::string& start, std::string_view path) {
  if (fs::path(path).is_absolute()) return fs::path(path).lexically_normal().string();
  const std::string inside = (fs::path("/") / path).lexically_normal().string();
  return path_from(start, inside.substr(1));
}

}  // namespace bascule
