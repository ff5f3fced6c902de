// SPDX-License-Identifier: Apache-2.0
// The labels of a manifest's rows: one of each row, or the tags of its words.
#include <algorithm>
#include <cstring>

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

}  // namespace bascule
