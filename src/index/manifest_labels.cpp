// SPDX-License-Identifier: Apache-2.0
// The labels of a manifest's rows: one of each row, or the tags of its words.
#include "src/index/manifest_readers.h"

#include <algorithm>
#include <cstring>

#include "src/base/error.h"
#include "src/index/manifest.h"

namespace bascule {
namespace {

// Where the tags of a row begin; of the row behind the last one, their end. Within the tags whatever the ends say, as
// an index that is mapped may be damaged.
std::size_t begin_of_tags(const ManifestTables& tables, std::size_t place) noexcept {
  return place == 0 ? 0 : std::min<std::size_t>(tables.tag_end[place - 1], tables.tags.size());
}

}  // namespace

int Manifest::label_of(std::size_t place) const noexcept {
  std::size_t label = tables_.labels.size() == figures_.rows ? tables_.labels[place] : 0;
  if (tables_.labels.size() > figures_.rows) {
    std::uint16_t wide = 0;
    std::memcpy(&wide, tables_.labels.data() + sizeof wide * place, sizeof wide);
    label = wide;
  }
  return class_number(label);
}

int Manifest::class_number(std::size_t label) const noexcept {
  if (class_numbers_.empty()) return static_cast<int>(label);
  return class_numbers_[std::min(label, class_numbers_.size() - 1)];
}

// A row has one label, or those of its words.
std::size_t Manifest::count_labels(std::size_t place) const noexcept {
  if (!has_tags()) return 1;
  const std::size_t begin = begin_of_tags(tables_, place), end = begin_of_tags(tables_, place + 1);
  return end < begin ? 0 : end - begin;
}

int Manifest::label_of(std::size_t place, std::size_t word) const noexcept {
  if (!has_tags()) return label_of(place);
  const std::size_t at = begin_of_tags(tables_, place) + word;
  return class_number(at < tables_.tags.size() ? tables_.tags[at] : 0);
}

bool Manifest::lacks_labels() const noexcept {
  if (has_tags()) return tables_.tags.empty();
  if (!has_values()) return !has_labels();
  std::int64_t rows = 0;
  while (rows < this->rows() && row(rows).value == -1.0f) ++rows;
  return rows == this->rows();
}

bool Manifest::lacks_second_texts() const noexcept {
  std::int64_t rows = 0;
  while (rows < this->rows() && is_empty_text(row(rows).second_text.value_or(""))) ++rows;
  return rows == this->rows();
}

int Manifest::tag(std::int64_t row, std::size_t word) const noexcept { return label_of(place_of(row), word); }

template <typename Test>
std::size_t Manifest::first_place(std::size_t count, const Test& test) const noexcept {
  for (std::size_t place = 0; place < count; ++place) {
    const std::size_t labels = count_labels(place);
    for (std::size_t i = 0; i < labels; ++i) {
      if (test(label_of(place, i))) return place;
    }
  }
  return count;
}

std::int64_t Manifest::first_row_of_class(std::size_t name) const noexcept {
  return static_cast<std::int64_t>(
      first_place(used_rows() - 1, [&](int label) { return label == static_cast<int>(name); }));
}

int Manifest::largest_label() const noexcept {
  int largest = 0;
  first_place(used_rows(), [&](int label) {
    largest = std::max(largest, label);
    return false;
  });
  return largest;
}

bool Manifest::has_one_label() const noexcept {
  int first = -1;
  const std::size_t other = first_place(used_rows(), [&](int label) {
    if (first < 0) first = label;
    return label != first;
  });
  return other == used_rows();
}

std::int64_t Manifest::first_row_of_label(int least) const noexcept {
  for (std::int64_t row = 0; row < rows(); ++row) {
    if (is_taken_out(row)) continue;
    const std::size_t place = place_of(row), labels = count_labels(place);
    for (std::size_t i = 0; i < labels; ++i) {
      if (label_of(place, i) >= least) return row;
    }
  }
  return -1;
}

namespace {

// The list of a column.
void check_list(const Json& value, const std::string& column, const char* what, const std::string& where) {
  if (value.is_array()) return;
  throw Error{ErrorKind::kData, where,
              "column " + quoted_text(column) + " is " + (value.is_object() ? "an object" : json_text(value)) +
                  ", not a list of " + what,
              "write one list of words and one of their tags in each row"};
}

ManifestLabel tag_of(const Json& value, std::size_t number, const ManifestColumns& columns, const std::string& where) {
  if (value.is_string() && !value.string().empty()) return {-1, value.string()};
  ManifestLabel label = value.is_integer() ? label_of_text(json_text(value), columns) : ManifestLabel();
  if (label.number >= 0) return label;
  const std::string tag = "tag " + std::to_string(number + 1) + " of column " + quoted_text(columns.label) + " is ";
  if (value.is_integer()) throw Error{ErrorKind::kData, where, tag + json_text(value), labels_to_use(columns)};
  const std::string shown = value.is_array() ? "a list" : value.is_object() ? "an object" : json_text(value);
  throw Error{ErrorKind::kData, where, tag + shown + ", neither a name nor an integer",
              "write the name of a tag, such as \"B-PER\", or its number"};
}

// Null, or -1 for each word.
bool are_no_tags(const Json& tags, const ManifestColumns& columns) {
  const auto is_none = [&](const Json& tag) { return is_no_label(tag.is_null() ? "" : json_text(tag), columns); };
  if (!tags.is_array()) return is_none(tags);
  return columns.optional_labels && std::all_of(tags.begin(), tags.end(), is_none);
}

}  // namespace

void WordReader::read(const Json& words, const Json* tags, const ManifestColumns& columns, const std::string& where) {
  check_list(words, columns.text, "words", where);
  if (tags != nullptr && are_no_tags(*tags, columns)) tags = nullptr;
  if (tags != nullptr) check_list(*tags, columns.label, "tags", where);
  if (words.size() == 0) {
    throw Error{ErrorKind::kData, where, "column " + quoted_text(columns.text) + " has no words",
                "write a word, or remove the row"};
  }
  if (tags != nullptr && words.size() != tags->size()) {
    throw Error{ErrorKind::kData, where,
                count_of(words.size(), "word") + " in column " + quoted_text(columns.text) + ", but " +
                    count_of(tags->size(), "tag") + " in column " + quoted_text(columns.label),
                "give each word one tag"};
  }
  text_.clear();
  tags_.clear();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
      return Error{ErrorKind::kData, where,
                   "word " + std::to_string(i + 1) + " of column " + quoted_text(columns.text) + what, what_to_do};
    };
    if (!words[i].is_string()) throw refuse(" is not a string", "write each word as a string");
    const std::string& word = words[i].string();
    if (word.find('\0') != std::string::npos) throw refuse(" contains a zero byte", "remove it");
    text_.append(word).push_back('\0');
    if (tags != nullptr) tags_.push_back(tag_of((*tags)[i], i, columns, where));
  }
}

}  // namespace bascule
