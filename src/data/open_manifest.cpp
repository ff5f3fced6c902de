// SPDX-License-Identifier: Apache-2.0
#include "src/data/open_manifest.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "src/data/index_file.h"
#include "src/data/shard_names.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

// A manifest's files, and the names that messages and relative paths start from: as Manifest::load() takes them.
struct Source {
  std::string file;
  std::string folder;
  std::vector<std::string> shards;  // empty: `file` is the one file
};

Source source_of(const std::string& path, const std::string& start) {
  if (names_shards(path)) return {path, "", expand_shards(path, start)};
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {path + "/metadata.jsonl", path, {}};
  const std::string folder = fs::path(path).parent_path().string();
  return {path, folder.empty() ? "." : folder, {}};
}

// Two texts differ in length or contents, so no two lists of them look alike.
void add_text(std::string* key, const std::string& text) { *key += std::to_string(text.size()) + ":" + text; }

std::uint64_t name_digest(const std::string& path, const Source& source, const ManifestColumns& columns) {
  std::string key;
  for (const std::string& name : source.shards.empty() ? std::vector<std::string>{path} : source.shards) {
    std::error_code failed;
    const fs::path absolute = fs::absolute(name, failed);
    add_text(&key, failed ? name : absolute.lexically_normal().string());
  }
  add_text(&key, columns.image);
  add_text(&key, columns.caption);
  add_text(&key, columns.label);
  return XXH3_64bits(key.data(), key.size());
}

// Nothing where a file is missing, which the reader is to say.
std::optional<std::uint64_t> state_digest(const Source& source) {
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
  if (source.shards.empty() && !add(source.file)) return std::nullopt;
  for (const std::string& shard : source.shards) {
    if (!add(shard)) return std::nullopt;
  }
  return XXH3_64bits(states.data(), states.size() * sizeof(std::uint64_t));
}

std::string index_name(std::uint64_t name) {
  char text[40];
  std::snprintf(text, sizeof text, "/%016llx.index", static_cast<unsigned long long>(name));
  return text;
}

std::string megabytes(std::size_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

}  // namespace

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

OpenedManifest open_manifest(const std::string& path, const ManifestColumns& columns, const IndexCache& cache,
                             const std::string& start) {
  const Source source = source_of(path, start);
  const std::optional<std::uint64_t> state = state_digest(source);
  const IndexSource identity{name_digest(path, source, columns), state.value_or(0)};
  const std::string index = cache.folder + index_name(identity.name_digest);
  const bool may_keep = !cache.folder.empty() && state.has_value();
  if (may_keep) {
    std::optional<Manifest> kept = IndexFile::open(index, identity, source.file, source.folder, source.shards);
    if (kept) return {std::move(*kept), ""};
  }
  OpenedManifest opened{Manifest::load(path, columns, start), ""};
  opened.manifest.measure_pictures();
  if (opened.manifest.rows() < cache.smallest_rows) return opened;
  const std::string what = "index of " + std::to_string(opened.manifest.rows()) + " rows";
  if (!may_keep) {
    opened.note = what + " is not kept: neither XDG_CACHE_HOME nor HOME names a folder";
    return opened;
  }
  if (state_digest(source) != state) {
    opened.note = what + " is not kept: " + path + " was changed while it was read";
    return opened;
  }
  std::error_code failed;
  fs::create_directories(cache.folder, failed);
  const std::string problem = failed ? failed.message() : IndexFile::write(index, identity, opened.manifest);
  opened.note = problem.empty()
                    ? what + " is kept in " + index + " (" + megabytes(opened.manifest.resident_bytes()) + ")"
                    : what + " is not kept in " + index + ": " + problem;
  return opened;
}

}  // namespace bascule
