// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "src/index/line_reader.h"
#include "src/index/manifest_readers.h"
#include "src/json/json.h"
#include "src/json/json_scan.h"

namespace bascule {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_blank(c); });
}

// With what stands in it where that is no value of a column.
std::string shown_member(const std::string& name, const Json& value) {
  return quoted_text(name) + (value.is_array() ? " (a list)" : value.is_object() ? " (an object)" : "");
}

// Rows often lie deeper in a document: {"data": [{...}, ...]}, or {"row": {...}} a line.
Error no_column(const Json& row, const std::string& column, const std::string& setting, const std::string& where) {
  std::vector<std::string> present;
  for (const auto& [name, value] : row.items()) {
    if (value.is_array() && value.size() > 0 &&
        (value[0].contains(column) || (row.size() == 1 && value[0].is_object())))
      return Error{ErrorKind::kData, where, "the rows are in a list, " + quoted_text(name) + ", inside an object",
                   "write that list alone, or one of its objects a line"};
    if (value.contains(column))
      return Error{ErrorKind::kData, where, "the columns are inside the object " + quoted_text(name),
                   "write them as members of the row itself"};
    present.push_back(shown_member(name, value));
  }
  return missing_column(where, column, setting, present);
}

// A null is a value that the row has, not a missing column.
const Json& member_of(const Json& row, const std::string& column, const std::string& setting,
                      const std::string& where) {
  const Json* const value = row.find(column);
  if (value == nullptr) throw no_column(row, column, setting, where);
  return *value;
}

const std::string& string_column(const Json& row, const std::string& column, const std::string& setting,
                                 const std::string& where) {
  const Json& value = member_of(row, column, setting, where);
  if (!value.is_string()) {
    const std::string is = value.is_object() ? "an object" : value.is_array() ? "a list" : json_text(value);
    throw Error{ErrorKind::kData, where, "column \"" + column + "\" is " + is + ", not a string",
                value.is_null() ? "write a string, or remove the row" : "write a string"};
  }
  return value.string();
}

ManifestLabel label_column(const Json& row, const ManifestColumns& columns, const std::string& where) {
  if (columns.label.empty() || (columns.optional_labels && row.find(columns.label) == nullptr)) return {};
  return label_of_value(member_of(row, columns.label, "label_column", where), columns, where);
}

class RowReader {
 public:
  RowReader(const std::string& file, const ManifestColumns& columns, ManifestBuilder* builder)
      : file_(file),
        columns_(columns),
        builder_(builder),
        text_columns_(text_columns(columns)),
        texts_(text_columns_.size()) {}

  void read(std::string_view text, std::int64_t line) {
    if (!columns_.words && read_plain(text, line)) return;
    const Json row = parse_json(text, file_, line);
    const std::string where = file_ + ":" + std::to_string(line);
    if (!row.is_object()) throw Error{ErrorKind::kData, where, "not a JSON object", "write one object a row"};
    if (columns_.words) {
      const bool has_tags = !columns_.optional_labels || row.find(columns_.label) != nullptr;
      words_.read(member_of(row, columns_.text, columns_.text_setting, where),
                  has_tags ? &member_of(row, columns_.label, "label_column", where) : nullptr, columns_, where);
      builder_->add_words(words_.text(), words_.tags(), line);
      return;
    }
    static const std::string kNone;
    const auto string_of = [&](const std::string& column, const char* setting) -> const std::string& {
      return column.empty() ? kNone : string_column(row, column, setting, where);
    };
    const std::string& image = string_of(columns_.image, "image_column");
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const TextColumn& column = text_columns_[i];
      const bool is_there = !column.is_optional || row.find(column.name) != nullptr;
      texts_[i] = is_there ? string_of(column.name, column.setting) : kNone;
    }
    builder_->add(image, texts_, label_column(row, columns_, where), line);
  }

 private:
  // Many times as fast, without a copy. False: nothing was done, and the row is read the other way, which also says
  // what is wrong.
  bool read_plain(std::string_view text, std::int64_t line) {
    if (check_json(text).what != nullptr) return false;
    const JsonView row(text);
    for (JsonView one = row.first(); one.is_there(); one = one.next()) {
      const bool is_other = one.is(JsonKind::kObject) || one.is(JsonKind::kArray);
      if (is_other || (one.is(JsonKind::kNumber) && !one.integer())) return false;
    }
    std::string_view image;
    const auto take = [&](const std::string& column, std::string_view* text_of_column) {
      if (column.empty()) return true;
      const JsonView member = row.member(column);
      *text_of_column = member.raw_string();
      return member.is(JsonKind::kString) && text_of_column->find('\\') == std::string_view::npos;
    };
    if (!take(columns_.image, &image)) return false;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (!take(text_columns_[i].name, &texts_[i])) return false;
    }
    ManifestLabel label;
    if (!columns_.label.empty()) {
      const JsonView value = row.member(columns_.label);
      const std::int64_t number = value.integer().value_or(-1);
      const bool is_boolean = columns_.classes == 2 && (value.is(JsonKind::kTrue) || value.is(JsonKind::kFalse));
      if (columns_.named_classes && value.is(JsonKind::kString)) {
        if (!take(columns_.label, &label.name) || label.name.empty()) return false;
      } else if (is_boolean) {
        label.number = value.is(JsonKind::kTrue) ? 1 : 0;
      } else if (number >= 0 && number < columns_.classes) {
        label.number = static_cast<int>(number);
      } else {
        return false;
      }
    }
    builder_->add(image, texts_, label, line);
    return true;
  }

  const std::string& file_;
  const ManifestColumns& columns_;
  ManifestBuilder* builder_;
  const std::vector<TextColumn> text_columns_;
  std::vector<std::string_view> texts_;  // of a row
  WordReader words_;
};

// Whether an object or a list that begins in a line has no end there.
bool is_open(std::string_view line) {
  std::int64_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (in_string && line[i] == '\\')
      ++i;
    else if (line[i] == '"')
      in_string = !in_string;
    else if (!in_string && (line[i] == '{' || line[i] == '['))
      ++depth;
    else if (!in_string && (line[i] == '}' || line[i] == ']'))
      --depth;
  }
  return depth > 0 && !in_string;
}

// Cuts an array into its elements without building it: only brackets, strings and commas matter here, the rest is left
// to the parser of each element.
class JsonArrayCutter {
 public:
  JsonArrayCutter(const std::string& file, const ManifestColumns& columns, RowReader* rows)
      : file_(file), columns_(columns), rows_(rows) {}

  // One line of the file with its line break.
  void read(std::string_view text, std::int64_t line) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool blank = is_blank(text[i]);
      if (state_ == State::kInside) {
        if (element_.empty() && !blank) {
          element_line_ = line;
          element_column_ = i;
        }
        if (!element_.empty() || !blank) take(text[i], line);
      } else if (!blank) {
        if (state_ == State::kAfter || text[i] != '[') throw broken(line, "text outside the array");
        state_ = State::kInside;
      }
    }
  }

  void finish(std::int64_t line) const {
    if (state_ == State::kInside) throw broken(line, "the array is not closed");
  }

 private:
  enum class State { kBefore, kInside, kAfter };

  void take(char c, std::int64_t line) {
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (depth_ == 0 && (c == ',' || c == ']')) {
      end_element(c, line);
      return;
    } else if (depth_ > 0 && (c == '}' || c == ']')) {
      --depth_;
    }
    element_.push_back(c);
  }

  void end_element(char c, std::int64_t line) {
    // Only [] has nothing before its end.
    if (element_.empty() && (c == ',' || any_element_)) throw broken(line, "an element is missing");
    if (!element_.empty()) read_row(columns_, [&] { read_element(); });
    element_.clear();
    any_element_ = true;
    if (c == ']') state_ = State::kAfter;
  }

  void read_element() {
    try {
      rows_->read(element_, element_line_);
    } catch (const Error&) {
      // Once more with the element at its place in the line, so that the column in the message is that of the file.
      rows_->read(std::string(element_column_, ' ') + element_, element_line_);
    }
  }

  Error broken(std::int64_t line, const char* what) const {
    return Error{ErrorKind::kData, file_ + ":" + std::to_string(line), what, "write one JSON array of objects"};
  }

  const std::string& file_;
  const ManifestColumns& columns_;
  RowReader* rows_;
  State state_ = State::kBefore;
  std::string element_;
  std::int64_t element_line_ = 0;
  std::size_t element_column_ = 0;
  std::int64_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool any_element_ = false;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number with a sign or a point: "-1", "1.0".
bool is_decimal(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const auto points = std::count(text.begin(), text.end(), '.');
  const auto digits = std::count_if(text.begin(), text.end(), is_digit);
  return digits > 0 && points <= 1 && static_cast<std::size_t>(digits + points) == text.size();
}

// A label where labels are classes.
ManifestLabel class_of_text(std::string_view text, const ManifestColumns& columns) noexcept {
  const bool is_number = std::all_of(text.begin(), text.end(), is_digit);
  if (!is_number) return {-1, columns.named_classes && !is_decimal(text) ? text : std::string_view()};
  std::int64_t label = 0;
  for (const char c : text) {
    label = 10 * label + (c - '0');
    if (label >= columns.classes) return {};
  }
  const bool has_leading_zero = text.size() > 1 && text[0] == '0';
  if (text.empty() || has_leading_zero) return {};
  return {static_cast<int>(label), {}};
}

// A label where labels may be values: any number that a float holds.
ManifestLabel value_of_text(std::string_view text) noexcept {
  const std::string_view written = text;
  const bool has_plus = !text.empty() && text[0] == '+';
  if (has_plus) text.remove_prefix(1);
  const std::size_t sign = !has_plus && !text.empty() && text[0] == '-' ? 1 : 0;
  const bool begins = text.size() > sign && (is_digit(text[sign]) || text[sign] == '.');  // no "inf", no "nan"
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (!begins || read.ec != std::errc() || read.ptr != end) return {};
  if (!(std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()))) return {};
  const bool is_decimal = text.find_first_of(".eE") != std::string_view::npos;
  return {-1, {}, static_cast<float>(value), is_decimal, std::string(written)};
}

}  // namespace

std::string labels_to_use(const ManifestColumns& columns) {
  if (columns.values == LabelValues::kAlways) return "use a number in every row";
  const std::string numbers = columns.classes == 2 ? "use 0 or 1"
                                                   : std::string("use a ") + (columns.words ? "tag" : "class") +
                                                         " number from 0 to " + std::to_string(columns.classes - 1);
  if (columns.values != LabelValues::kNone) return numbers + ", or names or decimal numbers in every row";
  return columns.named_classes ? numbers + ", or names in every row" : numbers;
}

std::string on_leading_zeros(std::string_view label) {
  const bool has_them = label.size() > 1 && label[0] == '0' && std::all_of(label.begin(), label.end(), is_digit);
  return has_them ? "; a class number has no leading zeros" : "";
}

ManifestLabel label_of_text(std::string_view text, const ManifestColumns& columns) noexcept {
  ManifestLabel label = class_of_text(text, columns);
  if (columns.values == LabelValues::kNone || label.number >= 0) return label;
  const ManifestLabel value = value_of_text(text);
  return value.is_any() ? value : label;
}

bool is_no_label(std::string_view text, const ManifestColumns& columns) noexcept {
  return columns.optional_labels && columns.values != LabelValues::kAlways && (text.empty() || text == "-1");
}

ManifestLabel label_of_value(const Json& value, const ManifestColumns& columns, const std::string& where) {
  if (is_no_label(value.is_null() ? "" : json_text(value), columns)) return {};
  if (value.is_boolean() && columns.classes == 2) return {value.boolean() ? 1 : 0, {}};
  if (value.is_integer()) {
    ManifestLabel label = label_of_text(json_text(value), columns);
    if (label.number >= 0 || label.value) return label;
  }
  if (columns.values != LabelValues::kNone && value.is_number() && !value.is_integer()) {
    ManifestLabel label = value_of_text(json_text(value));
    label.is_decimal = std::abs(value.number()) < 0x1p63;  // else an integer of more than 64 bits looks like one
    if (label.value) return label;
  }
  if (columns.named_classes && value.is_string() && !value.string().empty()) return {-1, value.string()};
  if (value.is_array()) {
    throw Error{ErrorKind::kData, where, "label \"" + columns.label + "\" is a list",
                "several labels at once are not supported: give each row one"};
  }
  throw Error{ErrorKind::kData, where, "label \"" + columns.label + "\" is " + json_text(value),
              labels_to_use(columns)};
}

std::uint64_t read_json_lines(const std::string& file, const ManifestColumns& columns, ManifestBuilder* builder) {
  LineReader lines(file);
  RowReader rows(file, columns, builder);
  std::string_view line;
  while (lines.next(&line)) {
    if (is_blank(line)) continue;
    read_row(columns, [&] {
      try {
        rows.read(line, lines.line());
      } catch (const Error&) {
        if (!is_open(line)) throw;
        throw Error{ErrorKind::kData, file + ":" + std::to_string(lines.line()), "the row does not end on its line",
                    "write one object a line, or all rows as one JSON array in a .json file"};
      }
    });
  }
  return lines.digest();
}

std::uint64_t read_json_array(const std::string& file, const ManifestColumns& columns, ManifestBuilder* builder) {
  LineReader lines(file);
  RowReader rows(file, columns, builder);
  JsonArrayCutter cutter(file, columns, &rows);
  std::string_view line;
  bool more = lines.next(&line);
  while (more && is_blank(line)) more = lines.next(&line);
  if (!more) return lines.digest();
  if (line[line.find_first_not_of(" \t\r")] != '[') return read_json_lines(file, columns, builder);
  for (; more; more = lines.next(&line)) {
    cutter.read(line, lines.line());
    cutter.read("\n", lines.line());
  }
  cutter.finish(lines.line());
  return lines.digest();
}

}  // namespace bascule
