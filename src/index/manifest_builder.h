// SPDX-License-Identifier: Apache-2.0
// How a manifest is built of rows, and the rows that it refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/error.h"
#include "src/index/manifest.h"

namespace bascule {

// Rows that a manifest refuses, for those that look at data which a run would not take: they are left out, and kept
// here. Allocates.

struct RefusedRows {
  static constexpr std::size_t kMostErrors = 6;

  void add(const Error& error) {
    if (errors.size() < most) errors.push_back(error);
    ++count;
  }

  std::size_t most = kMostErrors;  // that are kept
  std::int64_t count = 0;
  std::vector<Error> errors;  // of the first ones
};

// Where the readers of every kind of manifest put their rows: checks them, gives equal pictures one id, packs the
// index.

// A class number or a name, or where labels may be values any number; or none.
struct ManifestLabel {
  int number = -1;
  std::string_view name = {};
  std::optional<float> value = {};  // of a number that is no class number
  bool is_decimal = false;          // it is written as 2.5, 3.0 or 1e-3
  std::string written = {};         // the value as the data have it, for messages

  bool is_any() const { return number >= 0 || !name.empty() || value.has_value(); }
};

class ManifestBuilder {
 public:
  ManifestBuilder(DataFiles files, const ManifestColumns& columns);

  // Rows that are added between these two are of that manifest. A row that is refused is not added.
  void begin_file(const DataFile& file) { current_ = &file; }
  void end_file();
  // image_path: of no use where rows have none. texts: as text_columns() has them; those that are left out are empty.
  // label: none in every row where there are none. Throws Error (kData) naming the line.
  void add(std::string_view image_path, Span<const std::string_view> texts, const ManifestLabel& label,
           std::int64_t line);
  // A row of words, each followed by a zero byte, with a tag each; or without tags, as then all rows. Throws Error
  // (kData) naming the line.
  void add_words(std::string_view words, Span<const ManifestLabel> tags, std::int64_t line);
  // A row of a shard, whose picture is the member `name` at `place`. Throws Error (kData) naming the member.
  void add_member(std::string_view name, const PicturePlace& place, Span<const std::string_view> texts,
                  const ManifestLabel& label);
  // The picture's name of a row of a shard that was added before.
  std::string_view name(std::int64_t row) const { return manifest_.image_path(row); }
  void add_unread(UnreadPictures pictures);
  std::int64_t rows() const { return manifest_.rows(); }
  // Labels might have been values, but none is decimal, and one is no class number: finish() will throw its error.
  bool has_no_class() const;
  const std::vector<std::string>& shards() const { return manifest_.files_.shards; }
  // Throws Error (kData) if there are no rows. The builder is used up.
  Manifest finish(std::uint64_t digest);

 private:
  using Where = std::function<std::string()>;  // of a row, for messages

  void add_text(std::string_view text);
  void check_kind(const ManifestLabel& label, bool is_first, const Where& where);
  void add_row(Span<const std::string_view> texts, const ManifestLabel& label, const Where& where);
  void add_label(const ManifestLabel& label, const Where& where);
  // Whether labels are stored as values although, as far as is known, they are class numbers.
  bool are_stored_as_values() const {
    return label_bytes_ == sizeof(float) && values_ != LabelValues::kAlways && !has_decimal_labels_;
  }
  void settle_values();
  int number_of_name(std::string_view name, const Where& where);
  void forget_names(std::size_t first, std::size_t bytes);
  void add_name(std::string_view name);
  std::uint32_t image_id(std::string_view path);
  void grow_slots();

  Manifest manifest_;
  bool has_pictures_;
  std::size_t texts_of_a_row_;
  LabelValues values_;
  std::size_t class_bytes_;      // of one label that is a class number
  std::size_t label_bytes_ = 0;  // of one label
  bool has_decimal_labels_ = false;
  std::string label_name_, label_advice_;               // for messages
  std::optional<Error> no_class_;                       // of the first integer that is no class number
  std::string first_label_;                             // for messages: where it is and how it was read
  std::unordered_map<std::string, int> class_numbers_;  // of names, in order of first use
  const DataFile* current_ = nullptr;
  std::string joined_;                // a picture's path behind its prefix
  std::vector<std::uint16_t> tags_;   // of a row
  std::vector<std::uint32_t> slots_;  // hash table of image ids, open addressing; kFree where empty
};

}  // namespace bascule
