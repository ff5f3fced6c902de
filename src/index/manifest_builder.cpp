// SPDX-License-Identifier: Apache-2.0
#include "src/index/manifest_builder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include <xxhash.h>

#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/index/index_file.h"
#include "src/index/manifest_readers.h"

namespace bascule {
namespace {

constexpr std::uint32_t kFree = std::numeric_limits<std::uint32_t>::max();  // also: one more than the most pictures

// The problem of texts; empty: none.
std::string problem_of_texts(Span<const std::string_view> texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t invalid = first_invalid_utf8(texts[i]);
    if (invalid == texts[i].size()) continue;
    const std::string of = i == 0 ? "the text" : i == 1 ? "the second text" : "text " + std::to_string(i + 1);
    return "byte " + std::to_string(invalid) + " of " + of + " is not UTF-8";
  }
  return "";
}

constexpr std::int64_t kMostLines = std::numeric_limits<std::uint32_t>::max();
constexpr char kHowToWrite[] = "write texts in UTF-8";

std::string shown_label(const ManifestLabel& label) {
  if (!label.name.empty()) return "\"" + std::string(label.name.substr(0, utf8_cut(label.name, 40))) + "\"";
  return label.value ? label.written : std::to_string(label.number);
}

// "nan" of rows.csv:2 is a name; 1E5 of rows.csv:2 was read as the number 100000.
std::string label_as_read(const ManifestLabel& label, const std::string& where) {
  const std::string shown = shown_label(label) + " of " + shown_path(where);
  if (!label.name.empty()) return shown + " is a name";
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", static_cast<double>(label.value.value_or(0.0f)));
  const bool is_as_written = !label.value || label.written == number;
  return shown + (is_as_written ? " is a number" : " was read as the number " + std::string(number));
}

// "https://host/a.jpg"
bool is_url(std::string_view path) {
  const std::size_t colon = path.find(':');
  const auto is_of_scheme = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return colon != std::string_view::npos && colon > 0 && path.substr(colon, 3) == "://" &&
         std::all_of(path.begin(), path.begin() + colon, is_of_scheme);
}

}  // namespace

ManifestBuilder::ManifestBuilder(DataFiles files, const ManifestColumns& columns)
    : has_pictures_(!columns.image.empty()),
      texts_of_a_row_(std::max<std::size_t>(1, text_columns(columns).size())),
      values_(columns.values),
      class_bytes_(columns.classes <= 256 ? 1 : 2),
      label_name_(columns.label),
      label_advice_(labels_to_use(columns)),
      slots_(1024, kFree) {
  manifest_.files_ = std::move(files);
  manifest_.store_ = std::make_unique<ManifestStore>();
}

void ManifestBuilder::add(std::string_view image_path, Span<const std::string_view> texts, const ManifestLabel& label,
                          std::int64_t line) {
  const auto where = [&] {
    return current_->is_class_folder ? current_->path + "/" + std::string(image_path)
                                     : current_->path + ":" + std::to_string(line);
  };
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    return Error{ErrorKind::kData, where(), what, what_to_do};
  };
  if (line > kMostLines) throw refuse("too many lines", "split the manifest");
  if (has_pictures_ && image_path.empty()) throw refuse("the picture's path is empty", "");
  if (image_path.find('\0') != std::string_view::npos) throw refuse("the picture's path contains a zero byte", "");
  if (is_url(image_path)) {
    throw refuse("the picture is a URL, " + quoted_text(image_path) + ", and URLs are not read",
                 "download the pictures first, or export the data set with tools/export_dataset.py");
  }
  const std::string problem = problem_of_texts(texts);
  if (!problem.empty()) throw refuse(problem, kHowToWrite);
  add_row(texts, label, where);
  if (has_pictures_)
    manifest_.store_->image_of_row.push_back(image_id(behind_prefix(current_->prefix, image_path, &joined_)));
  manifest_.store_->line.push_back(static_cast<std::uint32_t>(line));
}

void ManifestBuilder::add_words(std::string_view words, Span<const ManifestLabel> tags, std::int64_t line) {
  const auto where = [&] { return current_->path + ":" + std::to_string(line); };
  if (line > kMostLines) throw Error{ErrorKind::kData, where(), "too many lines", "split the manifest"};
  const std::string problem = problem_of_texts({&words, 1});
  if (!problem.empty()) throw Error{ErrorKind::kData, where(), problem, kHowToWrite};
  ManifestStore& store = *manifest_.store_;
  tags_.clear();
  const std::size_t names = class_numbers_.size(), name_bytes = store.class_names.size();
  if (manifest_.figures_.rows > 0 && tags.empty() != store.tags.empty()) {
    throw Error{ErrorKind::kData, where(),
                tags.empty() ? "has no tags, but the rows before have" : "has tags, but the rows before have none",
                "give every row tags, or none"};
  }
  try {
    for (const ManifestLabel& tag : tags) {
      check_kind(tag, store.tags.empty() && tags_.empty(), where);
      tags_.push_back(static_cast<std::uint16_t>(tag.name.empty() ? tag.number : number_of_name(tag.name, where)));
    }
  } catch (const Error&) {
    forget_names(names, name_bytes);
    throw;
  }
  store.tags.insert(store.tags.end(), tags_.begin(), tags_.end());
  store.tag_end.push_back(store.tags.size());
  add_text(words);
  ++manifest_.figures_.rows;
  store.line.push_back(static_cast<std::uint32_t>(line));
}

void ManifestBuilder::add_member(std::string_view name, const PicturePlace& place, Span<const std::string_view> texts,
                                 const ManifestLabel& label) {
  const std::string where = manifest_.files_.shards[place.shard] + ": " + std::string(name);
  const std::string problem = problem_of_texts(texts);
  if (!problem.empty()) throw Error{ErrorKind::kData, where, problem, kHowToWrite};
  if (manifest_.figures_.rows == kFree) throw Error{ErrorKind::kData, where, "too many samples", ""};
  add_row(texts, label, [&]() -> const std::string& { return where; });
  add_name(name);
  manifest_.store_->places.push_back(place);
  manifest_.figures_.largest_picture_bytes =
      std::max<std::uint64_t>(manifest_.figures_.largest_picture_bytes, place.bytes);
}

void ManifestBuilder::end_file() { manifest_.store_->file_end.push_back(manifest_.figures_.rows); }

void ManifestBuilder::add_row(Span<const std::string_view> texts, const ManifestLabel& label, const Where& where) {
  ManifestStore& store = *manifest_.store_;
  ManifestFigures& figures = manifest_.figures_;
  const bool has_labels = !store.labels.empty();
  if (figures.rows > 0 && label.is_any() != has_labels) {
    throw Error{ErrorKind::kData, where(),
                has_labels ? "has no label, but the rows before have" : "has a label, but the rows before have none",
                "give all rows a label, or none"};
  }
  if (label.is_any()) add_label(label, where);
  for (std::size_t i = 0; i < texts_of_a_row_; ++i) add_text(i < texts.size() ? texts[i] : std::string_view());
  ++figures.rows;
}

void ManifestBuilder::add_text(std::string_view text) {
  ManifestStore& store = *manifest_.store_;
  store.texts.insert(store.texts.end(), text.begin(), text.end());
  store.text_end.push_back(store.texts.size());
  manifest_.figures_.longest_text_bytes = std::max<std::uint64_t>(manifest_.figures_.longest_text_bytes, text.size());
}

// Labels are names, or none is. Either of two that differ may be the wrong one: both are shown.
void ManifestBuilder::check_kind(const ManifestLabel& label, bool is_first, const Where& where) {
  if (is_first) first_label_ = label_as_read(label, where());
  const bool is_named = !label.name.empty();
  if (is_first || is_named != class_numbers_.empty()) return;
  throw Error{ErrorKind::kData, where(),
              "label " + shown_label(label) + (is_named ? " is a name, but " : " is a number, but ") + first_label_,
              "use names or numbers throughout; in a .jsonl file a string is always a name"};
}

void ManifestBuilder::add_label(const ManifestLabel& label, const Where& where) {
  ManifestStore& store = *manifest_.store_;
  const bool is_named = !label.name.empty();
  if (store.labels.empty()) label_bytes_ = is_named ? 2 : values_ != LabelValues::kNone ? sizeof(float) : class_bytes_;
  check_kind(label, store.labels.empty(), where);
  unsigned char bytes[sizeof(float)];
  if (label_bytes_ == sizeof(float)) {
    const float value = label.value.value_or(static_cast<float>(label.number));
    std::memcpy(bytes, &value, sizeof value);
    has_decimal_labels_ = has_decimal_labels_ || label.is_decimal;
    if (label.value && !label.is_decimal && !no_class_)
      no_class_ = Error{ErrorKind::kData, where(), "label \"" + label_name_ + "\" is " + label.written,
                        label_advice_ + on_leading_zeros(label.written)};
  } else {
    const int number = is_named ? number_of_name(label.name, where) : label.number;
    std::memcpy(bytes, &number, sizeof number);  // little-endian: the first bytes alone are a smaller label
  }
  store.labels.insert(store.labels.end(), bytes, bytes + label_bytes_);
}

bool ManifestBuilder::has_no_class() const { return are_stored_as_values() && no_class_.has_value(); }

// All rows are there: numbers are classes if none is decimal, unless they are values anyhow.
void ManifestBuilder::settle_values() {
  std::vector<unsigned char>& labels = manifest_.store_->labels;
  if (!are_stored_as_values()) return;
  if (no_class_) throw *no_class_;
  for (std::size_t row = 0; row < manifest_.figures_.rows; ++row) {
    float value = 0.0f;
    std::memcpy(&value, labels.data() + row * sizeof value, sizeof value);
    const int number = static_cast<int>(value);
    std::memcpy(labels.data() + row * class_bytes_, &number, class_bytes_);  // before those that are still to be read
  }
  labels.resize(manifest_.figures_.rows * class_bytes_);
}

int ManifestBuilder::number_of_name(std::string_view name, const Where& where) {
  const auto known = class_numbers_.find(std::string(name));
  if (known != class_numbers_.end()) return known->second;
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    return Error{ErrorKind::kData, where(), what, what_to_do};
  };
  if (class_numbers_.size() >= static_cast<std::size_t>(kMostClasses)) {
    throw refuse("more than " + std::to_string(kMostClasses) + " classes", "check that the column holds classes");
  }
  if (first_invalid_utf8(name) != name.size())
    throw refuse("the name of the class is not UTF-8", "write class names in UTF-8");
  if (name.find('\0') != std::string_view::npos)
    throw refuse("the name of the class contains a zero byte", "remove it");
  std::vector<char>& names = manifest_.store_->class_names;
  names.insert(names.end(), name.begin(), name.end());
  names.push_back('\0');
  return class_numbers_.emplace(name, static_cast<int>(class_numbers_.size())).first->second;
}

// Those of a row that is refused: from the class `first` on, behind so many bytes.
void ManifestBuilder::forget_names(std::size_t first, std::size_t bytes) {
  for (auto name = class_numbers_.begin(); class_numbers_.size() > first;)
    name = name->second >= static_cast<int>(first) ? class_numbers_.erase(name) : std::next(name);
  manifest_.store_->class_names.resize(bytes);
}

void ManifestBuilder::add_name(std::string_view name) {
  ManifestStore& store = *manifest_.store_;
  store.names.insert(store.names.end(), name.begin(), name.end());
  store.names.push_back('\0');
  store.name_end.push_back(store.names.size());
  // Names are looked up while the tables grow.
  manifest_.tables_.names = store.names;
  manifest_.tables_.name_end = store.name_end;
  ++manifest_.figures_.pictures;
}

std::uint32_t ManifestBuilder::image_id(std::string_view path) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = XXH3_64bits(path.data(), path.size()) & mask;
  for (; slots_[i] != kFree; i = (i + 1) & mask) {
    if (manifest_.image_path(slots_[i]) == path) return slots_[i];
  }
  const auto id = static_cast<std::uint32_t>(manifest_.pictures());
  if (id == kFree) throw Error{ErrorKind::kData, manifest_.files_.name, "too many pictures", "split the manifest"};
  slots_[i] = id;
  add_name(path);
  if (2 * manifest_.figures_.pictures >= slots_.size()) grow_slots();
  return id;
}

void ManifestBuilder::grow_slots() {
  slots_.assign(2 * slots_.size(), kFree);
  const std::size_t mask = slots_.size() - 1;
  for (std::int64_t id = 0; id < manifest_.pictures(); ++id) {
    const std::string_view path = manifest_.image_path(id);
    std::size_t i = XXH3_64bits(path.data(), path.size()) & mask;
    while (slots_[i] != kFree) i = (i + 1) & mask;
    slots_[i] = static_cast<std::uint32_t>(id);
  }
}

void ManifestBuilder::add_unread(UnreadPictures pictures) {
  pictures.count += manifest_.unread_.count;
  if (pictures.count > 0) manifest_.unread_ = std::move(pictures);
}

Manifest ManifestBuilder::finish(std::uint64_t digest) {
  if (manifest_.rows() == 0) {
    const UnreadPictures& unread = manifest_.unread_;
    if (unread.count == 0) throw Error{ErrorKind::kData, manifest_.files_.name, "has no rows", "add at least one"};
    throw Error{ErrorKind::kData, manifest_.files_.name, "has no rows: " + unread.text(), unread.what_to_do};
  }
  slots_ = {};
  settle_values();
  ManifestStore& store = *manifest_.store_;
  store.text_end.shrink_to_fit();
  store.image_of_row.shrink_to_fit();
  store.line.shrink_to_fit();
  store.labels.shrink_to_fit();
  store.name_end.shrink_to_fit();
  store.places.shrink_to_fit();
  store.file_end.shrink_to_fit();
  store.texts.shrink_to_fit();
  store.names.shrink_to_fit();
  store.class_names.shrink_to_fit();
  store.tag_end.shrink_to_fit();
  store.tags.shrink_to_fit();
  manifest_.tables_ = store.tables();
  manifest_.find_class_names();
  ManifestFigures& figures = manifest_.figures_;
  figures.digest = digest;
  figures.texts_digest =
      XXH3_64bits_withSeed(store.texts.data(), store.texts.size(),
                           XXH3_64bits(store.text_end.data(), store.text_end.size() * sizeof(std::uint64_t)));
  if (manifest_.is_measured()) figures.data_digest = manifest_.digest_of_sizes();
  return std::move(manifest_);
}

}  // namespace bascule
