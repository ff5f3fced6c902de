// SPDX-License-Identifier: Apache-2.0
#include "src/record/data_classes.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "src/base/error.h"
#include "src/base/messages.h"

namespace bascule {
namespace {

constexpr std::size_t kShown = 3;

// For one line of text.
std::string shortened(std::string name) {
  constexpr std::size_t kMost = 60;
  for (char& c : name) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  if (name.size() <= kMost) return name;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U) --end;  // not within a character
  return name.substr(0, end) + "...";
}

// "animal, body, face, ..."
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i > 0 ? ", " : "") + shortened(names[i]);
  return names.size() > kShown ? text + ", ..." : text;
}

// The meaning of a label that is not a value, for a row or for a word.
std::string label_word(const Manifest& manifest) { return manifest.has_tags() ? "tag" : "class"; }

[[noreturn]] void refuse_one_class(const Manifest& manifest) {
  const std::string word = label_word(manifest);
  throw Error(ErrorKind::kData, manifest.name(),
              std::string("all ") + (manifest.has_tags() ? "words" : "rows") + " have the same " + word,
              manifest.has_tags() ? "a model needs two tags or more" : "a classifier needs two classes or more");
}

[[noreturn]] void refuse_numbers_without_names(const Manifest& manifest) {
  throw Error(ErrorKind::kData, manifest.where(0), "tags are numbers, but the model's config.json does not name them",
              "write the tags as strings, or their names into id2label of config.json");
}

[[noreturn]] void refuse_names_unknown_to_model(const Manifest& manifest) {
  const std::string words = manifest.has_tags() ? "tags" : "classes";
  throw Error(ErrorKind::kData, manifest.where(0), words + " are names, but the model's config.json names none",
              "name the folder of a model that was trained for these " + words);
}

// The kind of labels.
std::string kind_of(const Manifest& manifest) {
  if (manifest.has_values()) return "values";
  return manifest.class_names().empty() ? "numbers" : "names";
}

void check_kinds(const RunData& data) {
  const Manifest& first = *data.splits.front().manifest;
  for (const RecordedSplit& split : data.splits) {
    if (split.manifest->is_unlabelled()) continue;  // the last one
    const std::string kind = kind_of(*split.manifest), wanted = kind_of(first);
    if (kind == wanted) continue;
    const bool are_values = kind == "values" || wanted == "values";
    throw Error(ErrorKind::kData, split.manifest->where(0),
                "labels are " + kind + ", but those of " + first.name() + " are " + wanted,
                are_values ? "use decimal numbers throughout, or none" : "use names or numbers throughout");
  }
}

// Labels that count from 1 make a class 0 that is never learnt. "": every class has rows.
std::string empty_classes(const Manifest& manifest, std::size_t classes) {
  std::vector<bool> has_rows(classes, false);
  for (std::int64_t row = 0; row < manifest.rows(); ++row)
    has_rows[static_cast<std::size_t>(manifest.row(row).label)] = true;
  std::vector<std::string> empty;
  for (std::size_t label = 0; label < classes; ++label) {
    if (!has_rows[label]) empty.push_back(std::to_string(label));
  }
  if (empty.empty()) return "";
  if (empty.size() > kShown) return "; " + std::to_string(empty.size()) + " of them have no row";
  return (empty.size() == 1 ? "; no row is of class " : "; no row is of the classes ") + and_list(empty);
}

// A folder may say nothing of its classes, whose count is then that of the training data.
void check_numbers(const Manifest& manifest, std::int64_t classes) {
  const std::int64_t row = manifest.first_row_of_label(static_cast<int>(classes));
  if (row < 0) return;
  throw Error(ErrorKind::kData, manifest.where(row),
              "class " + std::to_string(manifest.row(row).label) + " is out of range: the model has classes 0 to " +
                  std::to_string(classes - 1),
              "add rows of this class to the training data, or remove these rows");
}

}  // namespace

DataClasses classes_of_data(const RunData& data, const ModelInputs& model) {
  const std::vector<std::string>& of_model = model.class_names;
  check_kinds(data);
  const RecordedSplit* const train = data.find(Split::kTrain);
  if (train == nullptr) return {};
  if (train->manifest->has_values()) {
    if (model.has_values) return {};
    return {{},
            true,
            "the labels of the training data are decimal numbers; the model now predicts values with a new regression "
            "head"};
  }
  if (train->manifest->has_one_label()) refuse_one_class(*train->manifest);
  DataClasses found;
  std::string empty;
  found.names = train->manifest->class_names();
  if (found.names.empty()) {
    if (!of_model.empty()) return {};
    if (train->manifest->has_tags()) refuse_numbers_without_names(*train->manifest);
    const int largest = train->manifest->largest_label();
    for (int label = 0; label <= largest; ++label) found.names.push_back("LABEL_" + std::to_string(label));
    empty = empty_classes(*train->manifest, found.names.size());
  } else {
    std::sort(found.names.begin(), found.names.end());
    std::vector<std::string> known = of_model;
    std::sort(known.begin(), known.end());
    if (known == found.names) return {};
  }
  const std::string noun = train->manifest->has_tags() ? "tag" : "class";
  const std::string own =
      "the " + count_of(found.names.size(), noun) + " of the training data (" + some_of(found.names) + ")";
  found.note =
      model.has_values ? "using " + own + " and a new classifier in place of the folder's regression"
      : of_model.empty()
          ? "the model has no " + std::string(train->manifest->has_tags() ? "names of tags" : "class names") +
                "; using " + own + " and a new classifier"
          : "using " + own + " and a new classifier in place of the folder's " + count_of(of_model.size(), noun);
  found.note += empty;
  return found;
}

bool has_quoted_values(const RunData& data) {
  const RecordedSplit* const train = data.find(Split::kTrain);
  if (train == nullptr) return false;
  const std::vector<std::string>& names = train->manifest->class_names();
  const auto is_number = [](const std::string& name) {
    double number = 0.0;
    const std::from_chars_result end = std::from_chars(name.data(), name.data() + name.size(), number);
    return end.ec == std::errc() && end.ptr == name.data() + name.size();
  };
  return std::all_of(names.begin(), names.end(), is_number) &&
         std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.find_first_of(".eE") != std::string::npos; });
}

void number_classes(RunData* data, const ModelInputs& model) {
  const std::vector<std::string>& names = model.class_names;
  std::unordered_map<std::string, std::int32_t> numbers;
  for (const std::string& name : names) numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  for (RecordedSplit& split : data->splits) {
    const std::vector<std::string>& own = split.manifest->class_names();
    if (split.manifest->is_unlabelled()) continue;
    if (split.manifest->has_values() != model.has_values) {
      throw Error(ErrorKind::kData, split.manifest->where(0),
                  model.has_values
                      ? "labels are " + kind_of(*split.manifest) + " of classes, but the model predicts values"
                      : "labels are decimal numbers, but the model has classes",
                  "use data that the model was trained for");
    }
    if (model.has_values) continue;
    if (own.empty() && split.manifest->has_tags() && names.empty()) refuse_numbers_without_names(*split.manifest);
    if (own.empty()) check_numbers(*split.manifest, model.classes);
    if (!own.empty() && names.empty()) refuse_names_unknown_to_model(*split.manifest);
    std::vector<std::int32_t> numbers_of_own;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto known = numbers.find(own[i]);
      if (known == numbers.end()) {
        const std::string word = label_word(*split.manifest);
        throw Error(ErrorKind::kData, split.manifest->where(split.manifest->first_row_of_class(i)),
                    "unknown " + word + " \"" + shortened(own[i]) + "\"; the model's " + std::to_string(names.size()) +
                        (split.manifest->has_tags() ? " tags are " : " classes are ") + some_of(names),
                    "add rows of this " + word + " to the training data, or remove these rows");
      }
      numbers_of_own.push_back(known->second);
    }
    split.manifest->set_classes(std::move(numbers_of_own));
  }
}

}  // namespace bascule
