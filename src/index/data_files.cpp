// SPDX-License-Identifier: Apache-2.0
#include "src/index/data_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/files/input_file.h"
#include "src/index/glob.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  struct stat facts = {};
  return ::lstat(path.c_str(), &facts) == 0;
}

// A file, and its path as the setting has it.
struct NamedFile {
  std::string written, path;
};

// "https://…", "s3://…". One letter before the colon is no address: "c:/a.csv" may be a folder that is missing.
bool is_address(const std::string& path) {
  const std::size_t colon = path.find(":/");
  return colon != std::string::npos && colon > 1 &&
         std::all_of(path.begin(), path.begin() + static_cast<long>(colon),
                     [](unsigned char c) { return std::isalnum(c) != 0; });
}

// The files that one path without braces stands for.
std::vector<NamedFile> matches_of(const std::string& path, const std::string& start) {
  const std::string whole = path_from(start, path);
  if (is_address(path) && !exists(whole))
    throw Error{ErrorKind::kData, path, "is an address, and Bascule downloads nothing",
                "download the files and name them here"};
  if (!has_glob_sign(path) || exists(whole)) return {{path, whole}};
  const std::vector<std::string> found = expand_glob(path, start);
  if (found.empty()) throw Error{ErrorKind::kData, whole, "no file matches", "check the pattern and its folder"};
  // Folders in front of the first sign are in every match.
  const std::string front = path.substr(0, path.rfind('/', path.find_first_of("*?[")) + 1);
  const std::string folder = path_from(start, front);
  std::vector<NamedFile> files;
  files.reserve(found.size());
  for (const std::string& file : found)
    files.push_back({front + fs::path(file).lexically_relative(folder).string(), file});
  return files;
}

std::vector<NamedFile> files_of(const std::string& written, const PathsSetting& paths) {
  std::vector<NamedFile> files;
  for (const std::string& one : names_shards(written) ? expand_shards(written) : std::vector<std::string>{written}) {
    for (NamedFile& file : matches_of(paths.stays_inside ? path_inside("", one) : one, paths.start))
      files.push_back(std::move(file));
  }
  return files;
}

void check_files(const std::vector<DataFile>& files) {
  std::unordered_set<std::string_view> seen;
  for (const DataFile& file : files) {
    if (!seen.insert(file.path).second) {
      throw Error{ErrorKind::kSettings, file.path, "is listed twice for one split",
                  "list it once; to repeat its rows, add a link with another name"};
    }
    if (names_shards(file.path) != names_shards(files.front().path)) {
      throw Error{ErrorKind::kSettings, file.path, "tar shards and other files are mixed in one split",
                  "use either shards or manifests"};
    }
  }
}

bool is_hidden(const fs::path& path) { return path.filename().string().front() == '.'; }

bool has_folders(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return !is_hidden(name) && is_folder(folder + "/" + name); });
}

// Those of kMetadataFiles that lie in a folder.
std::vector<std::string> metadata_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* const name : kMetadataFiles) {
    if (is_there(folder + "/" + name)) found.emplace_back(name);
  }
  return found;
}

// Whether the folders in a folder are classes.
bool holds_classes(const std::string& folder) {
  return is_folder(folder) && metadata_in(folder).empty() && has_folders(folder);
}

// The file that lists the pictures of a folder without classes, which may be missing.
std::string metadata_of(const std::string& folder) {
  const std::vector<std::string> found = metadata_in(folder);
  if (found.size() > 1)
    throw Error{ErrorKind::kData, folder, "has both " + found[0] + " and " + found[1], "remove one of them"};
  if (found.empty()) return kMetadataFiles[0];
  if (found[0] != kMetadataFiles[2]) return found[0];
  throw Error{ErrorKind::kData, folder + "/" + found[0], "Parquet is not read",
              "write metadata.csv or metadata.jsonl in its place; tools/export_dataset.py converts a Hugging Face data "
              "set"};
}

std::string folder_of(const DataFile& file) {
  if (file.is_class_folder) return file.path;
  const std::string folder = fs::path(file.path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Without links and with a slash at the end. A folder that is missing is the reader's to name.
std::string canonical_folder(const std::string& folder) {
  std::error_code failed;
  fs::path canonical = fs::canonical(folder, failed);
  if (failed) canonical = fs::absolute(folder, failed).lexically_normal();
  std::string text = canonical.string();
  if (text.empty() || text.back() != '/') text += '/';
  return text;
}

// Up to the last slash that both have in common.
std::string common_folder(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '/') end = i + 1;
  }
  return a.substr(0, end);
}

void place_pictures(DataFiles* files) {
  std::map<std::string, std::string> folders;  // as written -> canonical
  for (const DataFile& file : files->manifests) folders.emplace(folder_of(file), "");
  files->folder = folders.begin()->first;
  if (folders.size() == 1) return;
  for (auto& [folder, canonical] : folders) canonical = canonical_folder(folder);
  std::string common = folders.begin()->second;
  for (const auto& [folder, canonical] : folders) common = common_folder(common, canonical);
  for (DataFile& file : files->manifests) file.prefix = folders[folder_of(file)].substr(common.size());
  if (common.size() > 1) common.pop_back();
  files->folder = common;
}

// The path itself and what it leads to: a link may lie in the data, or lead there.
std::vector<fs::path> forms_of(const fs::path& path) {
  std::error_code failed;
  std::vector<fs::path> forms = {fs::absolute(path, failed).lexically_normal()};
  const fs::path canonical = fs::weakly_canonical(path, failed);
  if (!failed) forms.push_back(canonical);
  return forms;
}

// If a path has signs of a pattern, the part before them is a folder like any other.
std::vector<fs::path> forms_of_pattern(const fs::path& pattern) {
  fs::path folder, rest;
  for (const fs::path& part : pattern) {
    fs::path& end = rest.empty() && !has_glob_sign(part.string()) ? folder : rest;
    end /= part;
  }
  std::vector<fs::path> forms = forms_of(folder.empty() ? "." : folder);
  for (fs::path& form : forms) form /= rest;
  return forms;
}

template <std::size_t N>
bool matches_one_of(const std::string& pattern, const char* const (&names)[N]) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* name) { return matches_glob(pattern, name); });
}

// Whether the part of a pattern behind output_dir matches something that a run writes there.
bool matches_a_run(const std::vector<std::string>& parts) {
  const bool has_folder = matches_one_of(parts.front(), kRunFolders);
  const bool has_file =
      matches_one_of(parts.back(), kModelAndStateFiles) || matches_one_of(parts.back(), kTokenizerFiles) ||
      matches_one_of(parts.back(), kPreprocessorFiles) || matches_one_of(parts.back(), kGenerationFiles);
  if (parts.size() > 1) return has_folder && has_file;
  return has_folder || has_file || matches_one_of(parts.front(), kResultFiles);
}

// Whether a pattern, or a plain folder, matches a folder that `folder` lies in, or what a run writes into it.
bool reaches(const fs::path& pattern, const fs::path& folder, bool is_glob) {
  auto part = pattern.begin(), name = folder.begin();
  for (; part != pattern.end() && name != folder.end(); ++part, ++name) {
    if (part->empty()) continue;  // behind a slash at the end
    if (*part != *name && !(is_glob && matches_glob(part->string(), name->string()))) return false;
  }
  std::vector<std::string> behind_folder;
  for (; part != pattern.end(); ++part) {
    if (!part->empty()) behind_folder.push_back(part->string());
  }
  return behind_folder.empty() || (is_glob && matches_a_run(behind_folder));
}

// Whether a link in a folder of classes, however deep, leads to a folder that one of the forms lies in: what is there
// is read as pictures of the class.
bool links_reach(const fs::path& folder, const std::vector<fs::path>& forms, std::set<fs::path>* seen) {
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code ignored;
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_symlink(ignored) && entry->is_directory(ignored)) {
      const fs::path target = fs::canonical(entry->path(), ignored);
      if (ignored || !seen->insert(target).second) continue;
      const bool is_around =
          std::any_of(forms.begin(), forms.end(), [&](const fs::path& form) { return reaches(target, form, false); });
      if (is_around || links_reach(target, forms, seen)) return true;
    }
  }
  return false;
}

// Folders of classes that a path stands for. A pattern that cannot be read is the reader's to refuse.
std::vector<std::string> class_folders(const std::string& path, const std::string& start) {
  std::vector<std::string> folders;
  try {
    for (NamedFile& file : matches_of(path, start)) {
      if (holds_classes(file.path)) folders.push_back(std::move(file.path));
    }
  } catch (const Error&) {
    folders.clear();
  }
  return folders;
}

}  // namespace

std::string path_with_folder(const PathsSetting& paths, const std::string& folder) {
  for (const std::string& written : paths.written) {
    if (names_shards(written)) continue;  // files, of a kind that no run writes
    const std::string path = paths.stays_inside ? path_inside("", written) : written;
    const std::string whole = path_from(paths.start, path);
    const bool is_glob = has_glob_sign(path) && !exists(whole);
    if (!is_glob && !is_folder(whole)) continue;
    const std::vector<fs::path> forms = forms_of(folder);
    for (const fs::path& data : is_glob ? forms_of_pattern(whole) : forms_of(whole)) {
      for (const fs::path& form : forms) {
        if (reaches(data, form, is_glob)) return written;
      }
    }
    std::set<fs::path> seen;
    for (const std::string& classes : class_folders(path, paths.start)) {
      if (links_reach(classes, forms, &seen)) return written;
    }
  }
  return "";
}

DataFiles find_data_files(const PathsSetting& paths) {
  std::vector<DataFile> files;
  DataFiles found;
  for (const std::string& written : paths.written) {
    for (const NamedFile& file : files_of(written, paths)) {
      const bool has_files = !names_shards(file.path) && is_folder(file.path);
      const bool has_classes = has_files && holds_classes(file.path);
      const std::string behind_folder = has_files && !has_classes ? "/" + metadata_of(file.path) : "";
      files.push_back({file.path + behind_folder, !behind_folder.empty(), has_classes, ""});
      found.written.push_back(file.written + behind_folder);
    }
  }
  check_files(files);
  found.name = paths.text();
  if (names_shards(files.front().path)) {
    for (DataFile& shard : files) found.shards.push_back(std::move(shard.path));
    return found;
  }
  found.manifests = std::move(files);
  if (found.manifests.size() == 1) found.name = found.manifests.front().path;
  place_pictures(&found);
  return found;
}

std::string_view behind_prefix(const std::string& prefix, std::string_view path, std::string* joined) {
  if (prefix.empty() || path.empty() || path[0] == '/') return path;
  std::string_view left = prefix;
  const auto skip = [&](std::string_view front) {
    if (path.substr(0, front.size()) != front) return false;
    path.remove_prefix(std::min(path.size(), path.find_first_not_of('/', front.size())));
    return true;
  };
  for (;;) {
    if (skip("./")) continue;
    if (left.empty() || !skip("../")) break;
    left.remove_suffix(1);
    left = left.substr(0, left.rfind('/') + 1);
  }
  joined->assign(left);
  joined->append(path);
  return *joined;
}

}  // namespace bascule
