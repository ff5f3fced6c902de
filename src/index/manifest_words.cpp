// SPDX-License-Identifier: Apache-2.0
#include "src/index/manifest_words.h"

#include <algorithm>

#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/index/manifest_readers.h"

namespace bascule {
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
  const ManifestLabel label = value.is_integer() ? label_of_text(json_text(value), columns) : ManifestLabel();
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
