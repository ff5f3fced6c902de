// SPDX-License-Identifier: Apache-2.0
#include "src/index/open_manifest.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/count_of.h"
#include "src/base/shown_path.h"
#include "src/index/index_file.h"
#include "src/index/refused_rows.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

// Two texts differ in length or contents, so no two lists of them look alike.
void add_text(std::string* key, const std::string& text) { *key += std::to_string(text.size()) + ":" + text; }

std::uint64_t name_digest(const DataFiles& files, const ManifestColumns& columns) {
  std::string key;
  const auto add_path = [&](const std::string& path) {
    std::error_code failed;
    const fs::path absolute = fs::absolute(path, failed);
    add_text(&key, failed ? path : absolute.lexically_normal().string());
  };
  for (const std::string& shard : files.shards) add_path(shard);
  for (const DataFile& file : files.manifests) {
    add_path(file.path);
    add_text(&key, file.is_folder ? "folder" : "");
    add_text(&key, file.prefix);
  }
  add_text(&key, columns.image);
  add_text(&key, columns.text);
  add_text(&key, columns.label);
  add_text(&key, std::to_string(columns.classes));
  if (!columns.second_text.empty()) add_text(&key, columns.second_text);
  if (columns.named_classes) add_text(&key, "named classes");
  if (columns.words) add_text(&key, "words");
  if (columns.optional_labels) add_text(&key, "optional labels");
  if (columns.optional_second_text) add_text(&key, "optional second text");
  if (columns.values != LabelValues::kNone)
    add_text(&key, columns.values == LabelValues::kAlways ? "values" : "classes or values");
  return XXH3_64bits(key.data(), key.size());
}

std::string index_name(std::uint64_t name) {
  char text[40];
  std::snprintf(text, sizeof text, "/%016llx.index", static_cast<unsigned long long>(name));
  return text;
}

std::string megabytes(std::size_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

std::string missing_note(const Manifest& manifest) {
  std::int64_t first = 0;
  while (!manifest.is_missing(first)) ++first;
  const std::int64_t missing = manifest.missing_pictures();
  return std::to_string(missing) + " of " + count_of(manifest.pictures(), "picture") + " of " + manifest.name() +
         (missing == 1 ? " is missing, and its rows are skipped: "
                       : " are missing, and their rows are skipped; the first is ") +
         shown_path(manifest.picture_location(manifest.image_id(first))) + " (" + shown_path(manifest.where(first)) +
         ")";
}

}  // namespace

std::optional<std::uint64_t> state_digest(const DataFiles& files) {
  std::vector<std::uint64_t> states;
  const auto add = [&](const std::string& file) {
    struct stat facts = {};
    if (::stat(file.c_str(), &facts) != 0) return false;
    for (const auto number :
         {static_cast<std::uint64_t>(facts.st_size), static_cast<std::uint64_t>(facts.st_mtim.tv_sec),
          static_cast<std::uint64_t>(facts.st_mtim.tv_nsec), static_cast<std::uint64_t>(facts.st_ino)}) {
      states.push_back(number);
    }
    return true;
  };
  for (const DataFile& file : files.manifests) {
    if (file.is_class_folder || !add(file.path)) return std::nullopt;  // who knows what lies deeper in a folder
  }
  for (const std::string& shard : files.shards) {
    if (!add(shard)) return std::nullopt;
  }
  return XXH3_64bits(states.data(), states.size() * sizeof(std::uint64_t));
}

IndexCache user_index_cache() {
  IndexCache cache;
  const auto set = [](const char* value) { return value != nullptr && value[0] == '/'; };
  const char* const base = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  if (set(base)) {
    cache.folder = std::string(base) + "/bascule";
  } else if (set(home)) {
    cache.folder = std::string(home) + "/.cache/bascule";
  }
  return cache;
}

OpenedManifest open_manifest(const PathsSetting& paths, const ManifestColumns& columns, const IndexCache& cache,
                             MissingPictures missing, std::int64_t most_rows) {
  const DataFiles files = find_data_files(paths);
  const std::optional<std::uint64_t> state = state_digest(files);
  const IndexSource identity{name_digest(files, columns), state.value_or(0)};
  const std::string index = cache.folder + index_name(identity.name_digest);
  const bool may_keep = !cache.folder.empty() && state.has_value();
  if (may_keep) {
    std::optional<Manifest> kept = IndexFile::open(index, identity, files);
    if (kept && most_rows > 0) kept->keep_first(most_rows);
    if (kept) return {std::move(*kept), ""};
  }
  OpenedManifest opened{Manifest::load(files, columns), ""};
  const std::int64_t all_rows = opened.manifest.rows();
  if (most_rows > 0) opened.manifest.keep_first(most_rows);
  opened.manifest.measure_pictures(missing);
  if (opened.manifest.missing_pictures() > 0) opened.note = missing_note(opened.manifest);
  if (opened.manifest.unread().count > 0)
    opened.note += (opened.note.empty() ? "" : "; ") + files.name + ": " + opened.manifest.unread().text();
  if (!opened.note.empty()) return opened;
  if (columns.refused != nullptr && columns.refused->count > 0) return opened;
  if (opened.manifest.rows() < std::max(all_rows, cache.smallest_rows)) return opened;
  const std::string what = "index of " + count_of(opened.manifest.rows(), "row");
  if (!may_keep) {
    opened.note = what + " is not cached: " +
                  (state.has_value() ? "neither XDG_CACHE_HOME nor HOME is set to a folder"
                                     : "the pictures of " + files.name + " are listed at each start");
    return opened;
  }
  if (state_digest(files) != state) {
    opened.note = what + " is not cached: " + files.name + " changed while it was read";
    return opened;
  }
  std::error_code failed;
  fs::create_directories(cache.folder, failed);
  const std::string problem = failed ? failed.message() : IndexFile::write(index, identity, opened.manifest);
  opened.note = problem.empty()
                    ? what + " is cached in " + index + " (" + megabytes(opened.manifest.resident_bytes()) + ")"
                    : what + " cannot be cached in " + index + ": " + problem;
  return opened;
}

}  // namespace bascule
