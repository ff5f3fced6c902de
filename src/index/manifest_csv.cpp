// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/index/line_reader.h"
#include "src/index/manifest_readers.h"

namespace bascule {
namespace {

class RecordReader {
 public:
  RecordReader(const std::string& file, char separator) : file_(file), lines_(file), separator_(separator) {}

  // The next record that is not an empty line; false after the last. Throws Error for a quote that is not closed.
  bool next() {
    do {
      if (!lines_.next(&line_)) return false;
    } while (line_.empty());
    first_line_ = lines_.line();
    count_ = 0;
    std::size_t place = 0;
    do {
      if (count_ == fields_.size()) fields_.emplace_back();
      place = read_field(place, &fields_[count_++]);
    } while (place <= line_.size());
    return true;
  }

  // The fields of the record, and the line that it begins on.
  std::size_t fields() const { return count_; }
  const std::string& field(std::size_t i) const { return fields_[i]; }
  std::string where() const { return file_ + ":" + std::to_string(first_line_); }
  std::int64_t line() const { return first_line_; }
  char separator() const { return separator_; }
  std::uint64_t digest() const { return lines_.digest(); }

 private:
  // Reads the field at `place` of the line and returns the place of the next one: past the end after the last.
  std::size_t read_field(std::size_t place, std::string* field) {
    const bool ends_anywhere = separator_ != '\t';
    if (ends_anywhere && place < line_.size() && line_[place] == '"') return read_quoted(place + 1, field);
    const std::size_t end = std::min(line_.find(separator_, place), line_.size());
    field->assign(line_.substr(place, end - place));
    if (!ends_anywhere) take_quotes_off(field);
    return end + 1;
  }

  // For a field in quotes, with those inside doubled. Otherwise its quotes are part of the text.
  static void take_quotes_off(std::string* field) {
    if (field->size() < 2 || field->front() != '"' || field->back() != '"') return;
    std::string inside;
    for (std::size_t i = 1; i + 1 < field->size(); ++i) {
      inside.push_back((*field)[i]);
      if ((*field)[i] == '"' && (++i + 1 >= field->size() || (*field)[i] != '"')) return;
    }
    *field = std::move(inside);
  }

  std::size_t read_quoted(std::size_t place, std::string* field) {
    field->clear();
    for (;;) {
      const std::size_t quote = line_.find('"', place);
      if (quote == std::string_view::npos) {
        field->append(line_.substr(place));
        next_line_of_field(field);
        place = 0;
        continue;
      }
      field->append(line_.substr(place, quote - place));
      place = quote + 1;
      if (place >= line_.size() || line_[place] == separator_) return place + 1;
      if (line_[place] != '"') {
        throw Error{ErrorKind::kData, where(), "text after the closing quote of a field",
                    "write a quote inside quotes twice"};
      }
      field->push_back('"');
      ++place;
    }
  }

  // A line break inside quotes belongs to the field.
  void next_line_of_field(std::string* field) {
    field->append(lines_.line_break());
    if (!lines_.next(&line_))
      throw Error{ErrorKind::kData, where(), "a quote is not closed", "write a quote inside quotes twice"};
  }

  const std::string& file_;
  LineReader lines_;
  char separator_;
  std::string_view line_;  // what is left of the record stands here
  std::vector<std::string> fields_;
  std::size_t count_ = 0;
  std::int64_t first_line_ = 0;
};

std::string name_of(char separator) { return separator == '\t' ? "tabs" : "\"" + std::string(1, separator) + "\""; }

// The only field of a header that has none of its file's separators shows what stands in their place.
Error no_column(const RecordReader& header, const std::string& column, const std::string& setting) {
  std::vector<std::string> present;
  for (std::size_t i = 0; i < header.fields(); ++i) present.push_back(quoted_text(header.field(i)));
  const std::size_t other = header.fields() == 1 ? header.field(0).find_first_of(";,\t|") : std::string::npos;
  if (other == std::string::npos) return missing_column(header.where(), column, setting, present);
  return Error{ErrorKind::kData, header.where(),
               "the fields of the header " + present[0] + " are separated by " + name_of(header.field(0)[other]) +
                   ", not by " + name_of(header.separator()),
               "use commas in a .csv file, tabs in a .tsv file"};
}

std::size_t find_column(const RecordReader& header, const std::string& column, const std::string& setting) {
  std::size_t found = header.fields();
  for (std::size_t i = 0; i < header.fields(); ++i) {
    if (header.field(i) != column) continue;
    if (found < header.fields()) {
      throw Error{ErrorKind::kData, header.where(), "duplicate column \"" + column + "\"", "rename one"};
    }
    found = i;
  }
  if (found == header.fields()) throw no_column(header, column, setting);
  return found;
}

ManifestLabel label_of(const std::string& text, const ManifestColumns& columns, const std::string& where) {
  if (is_no_label(text, columns)) return {};
  ManifestLabel label = label_of_text(text, columns);
  if (label.is_any()) return label;
  throw Error{ErrorKind::kData, where, "label \"" + columns.label + "\" is \"" + text + "\"",
              labels_to_use(columns) + on_leading_zeros(text)};
}

}  // namespace

std::uint64_t read_separated(const std::string& file, char separator, const ManifestColumns& columns,
                             ManifestBuilder* builder) {
  RecordReader records(file, separator);
  if (!records.next()) return records.digest();
  const std::size_t width = records.fields();
  constexpr std::size_t kNone = ~std::size_t{0};
  const auto column = [&](const std::string& name, const char* setting, bool is_optional = false) {
    bool is_there = !is_optional;
    for (std::size_t i = 0; i < records.fields(); ++i) is_there = is_there || records.field(i) == name;
    return name.empty() || !is_there ? kNone : find_column(records, name, setting);
  };
  const std::size_t image = column(columns.image, "image_column");
  std::vector<std::size_t> text_places;
  for (const TextColumn& text : text_columns(columns))
    text_places.push_back(column(text.name, text.setting, text.is_optional));
  std::vector<std::string_view> texts(text_places.size());
  const std::size_t label = column(columns.label, "label_column", columns.optional_labels);
  const std::string none;
  const auto field = [&](std::size_t place) -> const std::string& {
    return place == kNone ? none : records.field(place);
  };
  while (records.next()) {
    read_row(columns, [&] {
      if (records.fields() != width) {
        throw Error{ErrorKind::kData, records.where(),
                    count_of(records.fields(), "field") + ", but the header has " + std::to_string(width),
                    separator == ',' ? "put quotes around a field that contains the separator"
                                     : "a field of a .tsv file has neither tabs nor line breaks: write .csv or .jsonl "
                                       "for texts that have them"};
      }
      for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = field(text_places[i]);
      builder->add(field(image), texts,
                   label == kNone ? ManifestLabel() : label_of(records.field(label), columns, records.where()),
                   records.line());
    });
  }
  return records.digest();
}

}  // namespace bascule
