// SPDX-License-Identifier: Apache-2.0
#include "src/index/open_manifest.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include <xxhash.h>

#include "src/base/check.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/index/index_file.h"
#include "src/index/manifest_builder.h"
#include "src/index/picture_folder.h"

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
  for (const std::string& further : columns.further_texts) add_text(&key, "further text " + further);
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

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 2;                                                        // folders: data/train
constexpr const char* kSavedFiles[] = {"dataset_dict.json", "dataset_info.json"};  // by save_to_disk

std::string kind_of_table(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".parquet" ? "Parquet" : ending == ".arrow" ? "Arrow" : "";
}

// The first of these forms that a folder holds, or nothing.
std::string found_in(const std::string& folder) {
  std::error_code failed;
  if (std::any_of(std::begin(kSavedFiles), std::end(kSavedFiles),
                  [&](const char* file) { return fs::exists(folder + "/" + file, failed); }))
    return "is a data set that save_to_disk wrote";
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (entry.depth() == kDeepest) entry.disable_recursion_pending();
    const std::string kind = kind_of_table(entry->path());
    if (!kind.empty()) return "holds " + kind + " files";
  }
  return "";
}

}  // namespace

void refuse_foreign_data(const std::string& path) {
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    throw Error(ErrorKind::kData, path, what, what_to_do);
  };
  std::error_code failed;
  if (!fs::exists(path, failed) && !failed) {
    refuse(
        "there is no such file or folder",
        "data are local files, and Bascule downloads nothing: tools/export_dataset.py NAME --output FOLDER downloads "
        "and converts a data set of the hub");
  }
  const std::string kind = kind_of_table(path);
  const std::string found = fs::is_directory(path, failed) ? found_in(path)
                            : kind.empty()                 ? ""
                                                           : "is a file of " + kind;
  if (!found.empty()) refuse(found, "convert it: tools/export_dataset.py " + path + " --output FOLDER");
}

namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

std::uint64_t text_digest(std::string_view text) { return digest_of(text.data(), text.size()); }

}  // namespace

bool is_held_out(std::uint64_t digest, double share) {
  // Above 2^64 - 2^10 the quotient rounds to 1, which no share reaches.
  return std::ldexp(static_cast<double>(digest), -64) < share;
}

std::vector<bool> held_out_rows(const Manifest& manifest, double share, const IndexCache& cache) {
  std::vector<std::uint64_t> pictures;
  if (manifest.has_pictures()) pictures = picture_digests(manifest, cache);
  std::vector<bool> held_out;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    const std::uint64_t digest = manifest.has_pictures() ? pictures[static_cast<std::size_t>(manifest.image_id(row))]
                                                         : text_digest(manifest.row(row).text);
    held_out.push_back(is_held_out(digest, share));
  }
  return held_out;
}

// Copies rows of the tables, and the pictures in order of first use.
class ManifestPart {
 public:
  explicit ManifestPart(const Manifest& whole)
      : whole_(whole), from_(whole.tables_), part_(empty_like(whole)), numbers_(whole.figures_.pictures, kNone) {
    to_.class_names.assign(from_.class_names.begin(), from_.class_names.end());
  }

  Manifest copy(const std::vector<std::int64_t>& rows) {
    BASCULE_CHECK(!rows.empty() && whole_.taken_out_.empty() && whole_.empty_texts_.empty());
    Digest digest;
    digest.add_number(whole_.digest());
    for (const std::int64_t row : rows) {
      digest.add_number(static_cast<std::uint64_t>(row));
      add(row);
    }
    for (const std::uint64_t end : from_.file_end)
      to_.file_end.push_back(static_cast<std::uint64_t>(
          std::lower_bound(rows.begin(), rows.end(), static_cast<std::int64_t>(end)) - rows.begin()));
    return finish(digest.value());
  }

 private:
  static Manifest empty_like(const Manifest& whole) {
    Manifest part;
    part.store_ = std::make_unique<ManifestStore>();
    part.files_ = whole.files_;
    part.unread_ = whole.unread_;
    return part;
  }

  void add(std::int64_t row) {
    const auto place = static_cast<std::size_t>(row);
    const ManifestRow one = whole_.row(row);
    for (std::size_t i = 0; i < whole_.texts_of_a_row(); ++i) add_text(whole_.text(row, i));
    const std::size_t label_bytes = from_.labels.size() / whole_.figures_.rows;
    for (std::size_t i = 0; i < label_bytes; ++i) to_.labels.push_back(from_.labels[label_bytes * place + i]);
    if (whole_.has_tags()) {
      const std::size_t tags = whole_.count_labels(place), end = from_.tag_end[place];
      for (std::size_t i = end - tags; i < end; ++i) to_.tags.push_back(from_.tags[i]);
      to_.tag_end.push_back(to_.tags.size());
    }
    if (!from_.line.empty()) to_.line.push_back(from_.line[place]);
    if (!whole_.has_pictures()) return;
    std::uint32_t& number = numbers_[static_cast<std::size_t>(one.image_id)];
    if (number == kNone) {
      number = static_cast<std::uint32_t>(part_.figures_.pictures);
      add_picture(one);
    }
    if (!from_.image_of_row.empty()) to_.image_of_row.push_back(number);
  }

  void add_text(std::string_view text) {
    to_.texts.insert(to_.texts.end(), text.begin(), text.end());
    to_.text_end.push_back(to_.texts.size());
    part_.figures_.longest_text_bytes = std::max<std::uint64_t>(part_.figures_.longest_text_bytes, text.size());
  }

  void add_picture(const ManifestRow& row) {
    to_.names.insert(to_.names.end(), row.image_path.begin(), row.image_path.end());
    to_.names.push_back('\0');
    to_.name_end.push_back(to_.names.size());
    const auto picture = static_cast<std::size_t>(row.image_id);
    if (!from_.places.empty()) to_.places.push_back(from_.places[picture]);
    if (!from_.picture_bytes.empty()) to_.picture_bytes.push_back(from_.picture_bytes[picture]);
    if (std::binary_search(whole_.missing_.begin(), whole_.missing_.end(), row.image_id))
      part_.missing_.push_back(static_cast<std::int64_t>(part_.figures_.pictures));
    const auto bytes = static_cast<std::uint64_t>(whole_.picture_bytes(row.image_id));
    part_.figures_.largest_picture_bytes = std::max(part_.figures_.largest_picture_bytes, bytes);
    ++part_.figures_.pictures;
  }

  Manifest finish(std::uint64_t digest) {
    part_.figures_.rows = to_.text_end.size() / whole_.texts_of_a_row();
    part_.tables_ = to_.tables();
    part_.find_class_names();
    part_.figures_.digest = digest;
    part_.figures_.texts_digest =
        XXH3_64bits_withSeed(to_.texts.data(), to_.texts.size(),
                             XXH3_64bits(to_.text_end.data(), to_.text_end.size() * sizeof(std::uint64_t)));
    part_.figures_.data_digest = part_.digest_of_sizes();
    return std::move(part_);
  }

  const Manifest& whole_;
  const ManifestTables& from_;
  Manifest part_;
  ManifestStore& to_ = *part_.store_;
  std::vector<std::uint32_t> numbers_;  // of the part, by number in the whole
};

Manifest part_of(const Manifest& whole, const std::vector<std::int64_t>& rows) {
  return ManifestPart(whole).copy(rows);
}

}  // namespace bascule
