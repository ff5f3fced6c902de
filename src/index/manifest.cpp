// SPDX-License-Identifier: Apache-2.0
#include "src/index/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "src/base/check.h"
#include "src/base/descriptor.h"
#include "src/base/digest.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/index/index_file.h"
#include "src/index/manifest_builder.h"
#include "src/index/manifest_readers.h"
#include "src/index/open_manifest.h"
#include "src/index/relevance.h"
#include "src/text/unicode_tables.h"

namespace bascule {
namespace {

// A folder with metadata.jsonl or metadata.csv names its column of pictures "file_name" by Hugging Face's rule; the
// default name of other manifests cannot be meant there.
ManifestColumns folder_columns(ManifestColumns columns) {
  if (columns.image == ManifestColumns().image) columns.image = "file_name";
  return columns;
}

Error no_words(const std::string& path) {
  return Error{ErrorKind::kData, path, "lists of words with tags are not read from such files", "use .jsonl or .json"};
}

// The folders of a folder are its pictures' classes, where rows are a picture alone.
bool takes_class_folders(const ManifestColumns& columns) { return columns.named_classes && columns.text.empty(); }

Error no_metadata(const DataFile& file, const ManifestColumns& columns) {
  const std::string folder = file.is_class_folder ? file.path : std::filesystem::path(file.path).parent_path().string();
  return Error{ErrorKind::kData, folder,
               takes_class_folders(columns)
                   ? "is a folder with neither metadata.jsonl, metadata.csv nor a folder for each class"
                   : "is a folder with neither metadata.jsonl nor metadata.csv",
               "add one of them"};
}

// Returns the file's digest.
std::uint64_t read_file(const DataFile& file, const ManifestColumns& of_files, ManifestBuilder* builder) {
  const ManifestColumns columns = file.is_folder ? folder_columns(of_files) : of_files;
  const std::string ending = std::filesystem::path(file.path).extension().string();
  if (columns.words && ending != ".jsonl" && ending != ".json") throw no_words(file.path);
  if (file.is_class_folder && takes_class_folders(columns)) return read_class_folder(file.path, builder);
  if (file.is_class_folder || (file.is_folder && !is_there(file.path))) {
    refuse_foreign_data(file.is_class_folder ? file.path : std::filesystem::path(file.path).parent_path().string());
    throw no_metadata(file, columns);
  }
  if (ending == ".jsonl") return read_json_lines(file.path, columns, builder);
  if (ending == ".json") return read_json_array(file.path, columns, builder);
  if (ending == ".csv") return read_separated(file.path, ',', columns, builder);
  if (ending == ".tsv") return read_separated(file.path, '\t', columns, builder);
  refuse_foreign_data(file.path);
  throw Error{ErrorKind::kData, file.path, "unknown kind of manifest",
              "use .jsonl, .json, .csv, .tsv, a folder with metadata.jsonl or metadata.csv, uncompressed shards "
              "\"shard-{000..127}.tar\", or .txt files alone; tools/export_dataset.py converts data sets of the hub"};
}

// Part i of texts laid end to end, each with its end: within the texts whatever the ends say, as an index that is
// mapped may be damaged.
std::string_view part(Span<const char> texts, Span<const std::uint64_t> ends, std::size_t i) noexcept {
  const std::size_t end = std::min<std::size_t>(ends[i], texts.size());
  const std::size_t begin = i == 0 ? 0 : std::min<std::size_t>(ends[i - 1], end);
  return std::string_view(texts.data() + begin, end - begin);
}

}  // namespace

std::string quoted_text(std::string_view text) {
  constexpr std::size_t kMost = 40;
  const std::size_t end = utf8_cut(text, kMost);
  return "\"" + std::string(text.substr(0, end)) + (end < text.size() ? "..." : "") + "\"";
}

Error missing_column(const std::string& where, const std::string& column, const std::string& setting,
                     const std::vector<std::string>& present) {
  constexpr std::size_t kMost = 8;
  std::string listed;
  for (std::size_t i = 0; i < std::min(kMost, present.size()); ++i) listed += (i > 0 ? ", " : "") + present[i];
  if (present.size() > kMost) listed += ", ...";
  const ManifestColumns defaults = folder_columns({});
  const bool is_default = column == ManifestColumns().image || column == defaults.image || column == defaults.text;
  return Error{ErrorKind::kData, where,
               "no column \"" + column + "\"" + (listed.empty() ? ", nor any other" : " among " + listed),
               std::string("add it, or ") + (is_default ? "set" : "correct") + " data." + setting};
}

std::vector<TextColumn> text_columns(const ManifestColumns& columns) {
  std::vector<TextColumn> texts;
  if (!columns.text.empty()) texts.push_back({columns.text, columns.text_setting});
  if (!columns.second_text.empty())
    texts.push_back({columns.second_text, columns.second_text_setting, columns.optional_second_text});
  for (const std::string& further : columns.further_texts) texts.push_back({further, "negative_columns"});
  return texts;
}

std::string UnreadPictures::text() const { return count_of(count, "picture") + " not read: " + why; }

Error damaged_index(const Manifest& manifest) {
  return Error{ErrorKind::kData, manifest.name(), "its cached index is damaged",
               "run the same command again to rebuild it"};
}

Manifest::Manifest() = default;
Manifest::~Manifest() = default;
Manifest::Manifest(Manifest&& other) noexcept = default;
Manifest& Manifest::operator=(Manifest&& other) noexcept = default;

void Manifest::set_relevance(Relevance relevance) {
  relevance_ = std::make_unique<const Relevance>(std::move(relevance));
}

Manifest Manifest::load(const DataFiles& files, const ManifestColumns& columns) {
  ManifestBuilder builder(files, columns);
  if (columns.words && !files.shards.empty()) throw no_words(files.shards.front());
  std::vector<std::uint64_t> digests;
  if (!files.shards.empty()) digests.push_back(read_shards(columns, &builder));
  for (const DataFile& file : files.manifests) {
    builder.begin_file(file);
    digests.push_back(read_file(file, columns, &builder));
    builder.end_file();
  }
  if (columns.refused != nullptr && builder.has_no_class()) {
    ManifestColumns classes = columns;  // refused row by row
    classes.values = LabelValues::kNone;
    columns.refused->errors.clear();
    columns.refused->count = 0;
    return load(files, classes);
  }
  const bool are_all_refused = builder.rows() == 0 && columns.refused != nullptr && columns.refused->count > 0;
  if (are_all_refused) throw columns.refused->errors.front();
  if (digests.size() == 1) return builder.finish(digests.front());
  Digest all;
  for (const std::uint64_t digest : digests) all.add_number(digest);
  return builder.finish(all.value());
}

Manifest Manifest::load(const PathsSetting& paths, const ManifestColumns& columns) {
  return load(find_data_files(paths), columns);
}

ManifestRow Manifest::row(std::int64_t row) const noexcept {
  const std::size_t i = place_of(row);
  ManifestRow result;
  if (has_pictures()) {
    result.image_id = image_id(row);
    result.image_path = image_path(result.image_id);
  }
  result.text = text(row, 0);
  if (has_pairs()) result.second_text = text(row, 1);
  if (has_values()) {
    std::memcpy(&result.value, tables_.labels.data() + sizeof result.value * i, sizeof result.value);
  } else if (has_labels()) {
    result.label = label_of(i);
    result.value = static_cast<float>(result.label);
  }
  return result;
}

std::string_view Manifest::text(std::int64_t row, std::size_t place) const noexcept {
  return part(tables_.texts, tables_.text_end, texts_of_a_row() * place_of(row) + place);
}

void Manifest::find_class_names() {
  class_names_.clear();
  std::string_view left(tables_.class_names.data(), tables_.class_names.size());
  for (std::size_t end = left.find('\0'); end != std::string_view::npos; end = left.find('\0')) {
    class_names_.emplace_back(left.substr(0, end));
    left.remove_prefix(end + 1);
  }
}

std::int64_t Manifest::image_id(std::int64_t row) const noexcept {
  BASCULE_DCHECK(row >= 0 && row < rows());
  if (!has_pictures()) return 0;
  const std::size_t place = place_of(row);
  if (tables_.image_of_row.empty()) return static_cast<std::int64_t>(place);
  return std::min<std::int64_t>(tables_.image_of_row[place], pictures() - 1);
}

void Manifest::keep_first(std::int64_t rows) {
  BASCULE_CHECK(rows > 0 && taken_out_.empty() && empty_texts_.empty() && missing_.empty());
  const std::size_t count = static_cast<std::size_t>(rows);
  if (count >= figures_.rows) return;
  used_rows_ = count;
  used_pictures_ = has_pictures() ? count : 0;
  if (has_pictures() && !tables_.image_of_row.empty())
    used_pictures_ =
        std::size_t{1} + *std::max_element(tables_.image_of_row.begin(), tables_.image_of_row.begin() + count);
  // Names of classes are in order of first use too.
  if (!class_names_.empty()) class_names_.resize(static_cast<std::size_t>(largest_label()) + 1);
}

void Manifest::find_empty_texts() {
  for (std::int64_t row = 0; row < rows(); ++row) {
    const ManifestRow one = this->row(row);
    if (is_empty_text(one.text) || (one.second_text && is_empty_text(*one.second_text))) empty_texts_.push_back(row);
  }
}

bool Manifest::has_empty_text(std::int64_t row) const noexcept {
  return !empty_texts_.empty() && std::binary_search(empty_texts_.begin(), empty_texts_.end(), row);
}

void Manifest::take_out(std::vector<std::int64_t> rows) {
  taken_out_ = std::move(rows);
  std::size_t before = 0;
  for (std::int64_t& row : empty_texts_) {
    while (before < taken_out_.size() && taken_out_[before] <= row + static_cast<std::int64_t>(before)) ++before;
    row += static_cast<std::int64_t>(before);
  }
}

bool Manifest::is_taken_out(std::int64_t row) const noexcept {
  return !taken_out_.empty() && std::binary_search(taken_out_.begin(), taken_out_.end(), row);
}

// Where a row's entries are: without those that were taken out before it.
std::size_t Manifest::place_of(std::int64_t row) const noexcept {
  if (taken_out_.empty()) return static_cast<std::size_t>(row);
  const auto before = std::lower_bound(taken_out_.begin(), taken_out_.end(), row) - taken_out_.begin();
  return static_cast<std::size_t>(std::min<std::int64_t>(row - before, static_cast<std::int64_t>(figures_.rows) - 1));
}

std::int64_t Manifest::picture_bytes(std::int64_t image_id) const noexcept {
  if (!has_pictures()) return 0;
  const std::size_t i = static_cast<std::size_t>(image_id);
  return tables_.places.empty() ? tables_.picture_bytes[i] : tables_.places[i].bytes;
}

std::string_view Manifest::image_path(std::int64_t image_id) const noexcept {
  BASCULE_DCHECK(image_id >= 0 && image_id < pictures());
  std::string_view name = part(tables_.names, tables_.name_end, static_cast<std::size_t>(image_id));
  if (!name.empty()) name.remove_suffix(1);
  return name;
}

PicturePlace Manifest::place(std::int64_t image_id) const noexcept {
  BASCULE_DCHECK(image_id >= 0 && image_id < pictures());
  return tables_.places[static_cast<std::size_t>(image_id)];
}

const std::string& Manifest::shard_of(std::int64_t image_id) const noexcept {
  return files_.shards[std::min<std::size_t>(place(image_id).shard, files_.shards.size() - 1)];
}

std::string Manifest::where(std::int64_t row) const {
  BASCULE_DCHECK(row >= 0 && row < rows());
  if (is_taken_out(row)) return files_.name + ": row " + std::to_string(row + 1) + ", which was removed";
  if (!files_.shards.empty()) return shard_of(image_id(row));
  const std::size_t place = place_of(row);
  const DataFile& file = files_.manifests[number_of_file(place)];
  if (file.is_class_folder) return picture_location(image_id(row));
  return file.path + ":" + std::to_string(tables_.line[place]);
}

// The manifest that a row was written in.
std::size_t Manifest::number_of_file(std::size_t place) const noexcept {
  const auto behind = std::upper_bound(tables_.file_end.begin(), tables_.file_end.end(), place);
  return std::min(static_cast<std::size_t>(behind - tables_.file_end.begin()), files_.manifests.size() - 1);
}

std::string Manifest::picture_location(std::int64_t image_id) const {
  const std::string name(image_path(image_id));
  if (!files_.shards.empty()) return shard_of(image_id) + "/" + name;
  return (std::filesystem::path(files_.folder) / name).lexically_normal().string();
}

void Manifest::refuse_picture(std::int64_t row, const std::string& problem, const std::string& what_to_do) const {
  const std::string here = where(row), picture = picture_location(image_id(row));
  throw Error{ErrorKind::kData, here, (picture == here ? "" : shown_path(picture) + ": ") + problem, what_to_do};
}

bool Manifest::is_missing(std::int64_t row) const noexcept {
  return !missing_.empty() && std::binary_search(missing_.begin(), missing_.end(), image_id(row));
}

// Pictures are numbered in order of first use, so the row that uses the next number names a picture for the first time.
void Manifest::measure_pictures(MissingPictures missing) {
  if (is_measured()) return;
  const Descriptor folder(::open(files_.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open())
    throw Error{ErrorKind::kData, files_.folder, std::generic_category().message(errno), advice_for_open(errno), errno};
  std::vector<std::uint32_t> sizes;
  sizes.reserve(static_cast<std::size_t>(pictures()));
  std::string problem, what_to_do;
  std::int64_t row = 0;
  for (; row < rows() && problem.empty(); ++row) {
    if (image_id(row) != static_cast<std::int64_t>(sizes.size())) continue;
    struct stat facts = {};
    if (::fstatat(folder.number(), image_path(image_id(row)).data(), &facts, 0) != 0) {
      const int reason = errno;
      facts = {};
      if (missing == MissingPictures::kAreKept || (reason == ENOENT && missing == MissingPictures::kAreSkipped)) {
        missing_.push_back(image_id(row));
      } else {
        const std::string note = reason == ENOENT ? note_on_other_form(picture_location(image_id(row))) : "";
        problem = std::generic_category().message(reason) + note;
        if (reason == ENOENT)
          what_to_do = !note.empty() ? kOtherFormAdvice
                                     : "restore it, remove the row, or set data.on_bad_sample = \"skip\"; if the "
                                       "training data of a checkpoint had it, only restoring it or another output_dir "
                                       "helps";
      }
    } else if (!S_ISREG(facts.st_mode) && missing == MissingPictures::kAreKept) {
      facts = {};
      missing_.push_back(image_id(row));
    } else if (!S_ISREG(facts.st_mode)) {
      problem = "not a file";
    } else if (facts.st_size > std::numeric_limits<std::uint32_t>::max()) {
      problem = "larger than 4 GiB";
    }
    sizes.push_back(static_cast<std::uint32_t>(facts.st_size));
  }
  if (!problem.empty()) {
    refuse_picture(row - 1, problem,
                   what_to_do.empty() ? "put a picture in its place, or remove the row: data.on_bad_sample = \"skip\" "
                                        "skips only files that are missing or cannot be decoded"
                                      : what_to_do);
  }
  if (missing_.size() == sizes.size()) {
    refuse_picture(0,
                   std::generic_category().message(ENOENT) + note_on_other_form(picture_location(image_id(0))) +
                       ", and no other picture was found either",
                   "check the paths; relative ones start from " + shown_path(files_.folder));
  }
  store_->picture_bytes = std::move(sizes);
  tables_ = store_->tables();
  figures_.largest_picture_bytes = *std::max_element(tables_.picture_bytes.begin(), tables_.picture_bytes.end());
  figures_.data_digest = digest_of_sizes();
}

std::uint64_t Manifest::digest_of_sizes() const {
  Digest digest;
  digest.add_number(figures_.digest);
  std::string file;
  for (std::int64_t id = 0; id < pictures(); ++id) {
    const std::size_t i = static_cast<std::size_t>(id);
    std::uint64_t size = 0;
    if (is_measured()) {
      size = tables_.places.empty() ? tables_.picture_bytes[i] : tables_.places[i].bytes;
    } else {
      const std::string_view path = image_path(id);
      file.assign(!path.empty() && path[0] == '/' ? "" : files_.folder + "/");
      file.append(path);
      struct stat facts = {};
      size = ::stat(file.c_str(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : ~std::uint64_t{0};
    }
    digest.add_number(size);
  }
  return digest.value();
}

std::uint64_t Manifest::data_digest() const {
  const bool is_of_all = used_rows_ == 0 || !has_pictures();
  return is_measured() && is_of_all ? figures_.data_digest : digest_of_sizes();
}

std::size_t Manifest::resident_bytes() const noexcept {
  if (mapping_) return mapping_->bytes();
  const auto bytes_of = [](const auto&... table) { return (table.size_bytes() + ...); };
  return std::apply(bytes_of, tables_.all()) + (relevance_ ? relevance_->bytes() : 0);
}

bool Manifest::is_whole() const { return !mapping_ || mapping_->is_own() || mapping_->is_whole(); }

bool Manifest::read_into_memory() {
  if (!mapping_ || mapping_->is_own() || IndexFile::read_into_memory(this)) return true;
  ::unlink(mapping_->path().c_str());
  return false;
}

}  // namespace bascule
