// SPDX-License-Identifier: Apache-2.0
// Readers of manifests, by kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/index/manifest_builder.h"
#include "src/json/json.h"

namespace bascule {

// One reader for each kind of manifest. They give rows to a ManifestBuilder in the order of the file and return the
// file's digest. All throw Error (kData).

// One JSON object a line; empty lines are skipped.
std::uint64_t read_json_lines(const std::string& file, const ManifestColumns& columns, ManifestBuilder* builder);
// One JSON array of objects, read object by object; or JSON lines, which often go by the same ending.
std::uint64_t read_json_array(const std::string& file, const ManifestColumns& columns, ManifestBuilder* builder);
// With a header line; empty lines are skipped. Between commas RFC 4180: quoted fields, doubled quotes, line breaks
// inside quotes. Between tabs a field ends at the next tab or line break, whatever it begins with: quotes around it are
// taken off where those inside are doubled, and are part of the text else.
std::uint64_t read_separated(const std::string& file, char separator, const ManifestColumns& columns,
                             ManifestBuilder* builder);

// The builder's shards one after another; manifest.h says what their members are. A digest of names, places and sizes
// of all members and of the contents of those that are text.
std::uint64_t read_shards(const ManifestColumns& columns, ManifestBuilder* builder);

// The folders of a folder are classes. A digest of the pictures' paths.
std::uint64_t read_class_folder(const std::string& folder, ManifestBuilder* builder);

// A column of texts, by their order in a row, and its key in [data] for messages.
struct TextColumn {
  std::string name;
  const char* setting;
  bool is_optional = false;  // a row without it has an empty text
};
std::vector<TextColumn> text_columns(const ManifestColumns& columns);

// Reads a row. One that is refused goes to columns.refused, if there is such a place.
template <typename Read>
void read_row(const ManifestColumns& columns, const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (columns.refused == nullptr || error.kind() != ErrorKind::kData) throw;
    columns.refused->add(error);
  }
}

// A label in JSON: a class number, or, of two classes, false or true; or a name, which is a string; or, where labels
// may be values, another number; or none (is_no_label()). Throws Error at `where` for anything else. The name is valid
// as long as the value.
ManifestLabel label_of_value(const Json& value, const ManifestColumns& columns, const std::string& where);
// A label in text: a class number, or a name that is not a decimal number, or, where labels may be values, another
// number. None of these: it is none.
ManifestLabel label_of_text(std::string_view text, const ManifestColumns& columns) noexcept;
// Whether a label says, where it may, that the row has none.
bool is_no_label(std::string_view text, const ManifestColumns& columns) noexcept;
// "use 0 or 1"
std::string labels_to_use(const ManifestColumns& columns);
// "; a class number has no leading zeros" for a label that has some, else "".
std::string on_leading_zeros(std::string_view label);
// The Error for a row or header that lacks a column. setting: its key in [data], such as "image_column". present: the
// columns that there are, as people are to read them.
Error missing_column(const std::string& where, const std::string& column, const std::string& setting,
                     const std::vector<std::string>& present);
// A name or value in quotes, cut where it is long.
std::string quoted_text(std::string_view text);

// The words of a row and their tags, from its JSON.

class WordReader {
 public:
  // words: a list of strings; tags: a list of as many strings or class numbers; null, or none of them a tag where that
  // may be: the row has none. Both outlive what is read. Throws Error (kData) at `where`.
  void read(const Json& words, const Json* tags, const ManifestColumns& columns, const std::string& where);

  // Those of the row that was read last: all words, each followed by a zero byte, and a tag of each or none.
  const std::string& text() const { return text_; }
  Span<const ManifestLabel> tags() const { return tags_; }

 private:
  std::string text_;
  std::vector<ManifestLabel> tags_;
};

}  // namespace bascule
