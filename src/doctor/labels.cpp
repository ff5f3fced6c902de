// SPDX-License-Identifier: Apache-2.0
#include "src/base/paths.h"
#include "src/doctor/doctor.h"

#include <algorithm>
#include <utility>

#include "src/base/utf8.h"
#include "src/doctor/finding.h"
#include "src/loader/loader_parts.h"
#include "src/settings/nearest_key.h"

namespace bascule {
namespace {

constexpr double kUnbalanced = 10.0;  // the largest class to the smallest
constexpr std::size_t kNamed = 5;

// A name of the data, or a number and, where the model's folder has names, its name there.
std::string class_name(const Manifest& manifest, const ModelInputs& model, int label) {
  const std::vector<std::string>& names = manifest.class_names();
  const std::size_t number = static_cast<std::size_t>(label);
  if (!names.empty()) return printable_line(names[number]);
  const bool is_named = number < model.class_names.size() && model.class_names[number].rfind("LABEL_", 0) != 0;
  return std::to_string(label) + (is_named ? " (" + printable_line(model.class_names[number]) + ")" : "");
}

// Calls `see` with each label of a row: its class, or the tags of its words.
template <typename See>
void see_labels(const Manifest& manifest, std::int64_t row, const See& see) {
  const ManifestRow values = manifest.row(row);
  if (!manifest.has_tags()) return see(values.label);
  std::string_view words = values.text;
  for (std::size_t word = 0; !words.empty(); ++word) {
    take_word(&words);
    see(manifest.tag(row, word));
  }
}

std::string classes_text(const std::vector<std::string>& names) {
  return (names.size() == 1 ? "the class " : "the " + std::to_string(names.size()) + " classes ") +
         shown_list(names, kNamed);
}

bool less_rows(const ClassCount& a, const ClassCount& b) { return a.rows < b.rows; }

void find_unbalanced(const SplitFigures& train, std::vector<Finding>* findings) {
  const auto [least, most] = std::minmax_element(train.classes.begin(), train.classes.end(), less_rows);
  if (static_cast<double>(most->rows) < kUnbalanced * static_cast<double>(least->rows)) return;
  findings->push_back({Level::kWarning, "unbalanced_classes",
                       "train: the class " + most->name + " has " + counted(most->rows, "row") + ", the class " +
                           least->name + " " + count_text(least->rows) + "; a model that always says " + most->name +
                           " is right for " + share_text(most->rows, train.rows) + " of the rows",
                       "judge by F1 or by the accuracy of each class, or add rows of the rare classes",
                       static_cast<std::int64_t>(train.classes.size())});
}

// Whether a name is probably a typing error of another class, which is far more frequent. B-X is none of I-X.
bool is_typing_error(const ClassCount& one, const ClassCount& other) {
  constexpr std::int64_t kTimes = 20;
  const auto is_tag = [](const std::string& name) { return name.size() > 2 && name[1] == '-'; };
  const bool are_other_tags = is_tag(one.name) && is_tag(other.name) && one.name[0] != other.name[0];
  return one.name.size() > 2 && !are_other_tags && other.rows >= kTimes * one.rows && one.name != other.name &&
         edit_distance(one.name, other.name) <= 1;
}

// Names of classes that one split alone has, with what they may have been meant to be.
struct OwnNames {
  std::vector<std::string> names;
  bool may_be_errors = false;

  std::string what_to_do(const std::string& otherwise) const {
    return may_be_errors ? "correct the name where it is a typing error, else " + otherwise : otherwise;
  }
};

OwnNames names_only_in(const SplitFigures& split, const SplitFigures& other, const SplitFigures& train) {
  OwnNames own;
  for (const ClassCount& one : split.classes) {
    const auto same = [&](const ClassCount& theirs) { return theirs.name == one.name; };
    if (std::any_of(other.classes.begin(), other.classes.end(), same)) continue;
    const auto meant = std::find_if(train.classes.begin(), train.classes.end(),
                                    [&](const ClassCount& theirs) { return is_typing_error(one, theirs); });
    const bool is_error = meant != train.classes.end();
    own.names.push_back(one.name + (is_error ? " (a typing error of " + meant->name + "?)" : ""));
    own.may_be_errors = own.may_be_errors || is_error;
  }
  return own;
}

// manifest: of the training data.
void compare_classes(const SplitFigures& train, const SplitFigures& split, const Manifest& manifest,
                     std::vector<Finding>* findings) {
  const bool have_names = !manifest.class_names().empty();
  const std::string unit = manifest.has_tags() ? "word" : "row";
  const OwnNames of_train = names_only_in(train, split, train), of_split = names_only_in(split, train, train);
  const std::vector<std::string>&missing = of_train.names, &unknown = of_split.names;
  if (!missing.empty()) {
    findings->push_back({Level::kWarning, "classes_missing",
                         split.name + ": no " + unit + " is of " + classes_text(missing) + ", which train has",
                         of_train.what_to_do("add rows: figures of this split say nothing about what they lack"),
                         static_cast<std::int64_t>(missing.size())});
  }
  if (!unknown.empty()) {
    findings->push_back({have_names ? Level::kFails : Level::kWarning, "classes_not_in_training",
                         split.name + ": " + classes_text(unknown) + (unknown.size() == 1 ? " has" : " have") + " no " +
                             unit + " in train",
                         of_split.what_to_do("add rows to the training data, or remove these"),
                         static_cast<std::int64_t>(unknown.size())});
  }
}

// Equal samples that have different labels, in the whole data.
void find_conflicts(const OpenedData& opened, const std::vector<RowDigests>& samples, std::vector<Finding>* findings) {
  const auto label_of = [&](RowOfSplit row) {
    const Manifest& manifest = *opened.data().splits[row.split].manifest;
    if (!manifest.has_tags() && manifest.has_values()) return std::to_string(manifest.row(row.row).value);
    std::string labels;
    see_labels(manifest, row.row, [&](int label) {
      labels += (labels.empty() ? "" : " ") + class_name(manifest, opened.model().inputs, label);
    });
    return labels;
  };
  const RowDigests none;  // of rows without labels
  std::vector<const RowDigests*> digests;
  digests.reserve(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i)
    digests.push_back(opened.data().splits[i].manifest->is_unlabelled() ? &none : &samples[i]);
  struct Conflict {
    RowOfSplit row, other;
  };
  const auto comes_before = [](const Conflict& a, const Conflict& b) { return a.row < b.row; };
  std::vector<Conflict> first;
  std::int64_t count = 0;
  find_equal_rows(digests, [&](const std::vector<RowOfSplit>& group) {
    const std::string label = label_of(group[0]);
    const auto other = std::find_if(group.begin(), group.end(), [&](RowOfSplit row) { return label_of(row) != label; });
    if (other == group.end()) return;
    ++count;
    add_one(&first, {group[0], *other}, opened.most_examples(), comes_before);
  });
  if (count == 0) return;
  keep_first(&first, opened.most_examples(), comes_before);
  Finding finding = {Level::kWarning, "conflicting_labels",
                     counted(count, "sample") + (count == 1 ? " occurs" : " occur") + " with different labels",
                     "correct the labels: equal samples get one answer", count};
  for (const Conflict& conflict : first) {
    const Manifest& manifest = *opened.data().splits[conflict.row.split].manifest;
    std::vector<std::string> pictures;  // equal ones: once
    if (reads_pictures(opened.data().loader))
      pictures.push_back(manifest.picture_location(manifest.image_id(conflict.row.row)));
    finding.examples.push_back({opened.where(conflict.row.split, conflict.row.row) + " is " + label_of(conflict.row) +
                                    ", and equal to " + opened.where(conflict.other.split, conflict.other.row) + ", " +
                                    label_of(conflict.other),
                                std::move(pictures)});
  }
  findings->push_back(std::move(finding));
}

}  // namespace

bool has_own_labels(const RecordedSplit& split) {
  return split.corpus == nullptr && !split.manifest->is_unlabelled() &&
         (split.manifest->has_labels() || split.manifest->has_tags());
}

void count_labels(const RecordedSplit& split, const ModelInputs& model, SplitFigures* figures) {
  const Manifest& manifest = *split.manifest;
  if (!has_own_labels(split)) return;
  if (!manifest.has_tags() && manifest.has_values()) {
    ValueFigures values;
    for (std::int64_t row = 0; row < manifest.rows(); ++row) {
      const double value = static_cast<double>(manifest.row(row).value);
      values.least = row == 0 ? value : std::min(values.least, value);
      values.most = row == 0 ? value : std::max(values.most, value);
      values.mean += value / static_cast<double>(manifest.rows());
    }
    figures->values = values;
    return;
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(manifest.largest_label()) + 1);
  for (std::int64_t row = 0; row < manifest.rows(); ++row)
    see_labels(manifest, row, [&](int label) { ++rows[static_cast<std::size_t>(label)]; });
  for (std::size_t label = 0; label < rows.size(); ++label) {
    if (rows[label] > 0)
      figures->classes.push_back({class_name(manifest, model, static_cast<int>(label)), rows[label]});
  }
  if (manifest.class_names().empty()) return;
  std::sort(figures->classes.begin(), figures->classes.end(),
            [](const ClassCount& a, const ClassCount& b) { return a.name < b.name; });
}

void find_in_labels(const OpenedData& opened, const std::vector<SplitFigures>& figures,
                    const std::vector<RowDigests>& samples, std::vector<Finding>* findings) {
  if (figures.empty() || !has_own_labels(opened.data().splits.front())) return;
  const SplitFigures& train = figures.front();
  if (train.values && train.values->least == train.values->most) {
    findings->push_back({Level::kWarning, "one_value", train.name + ": all labels are the same value",
                         "a regression has nothing to learn here", train.rows});
  }
  if (opened.data().splits.front().split == Split::kTrain && !train.classes.empty()) {
    if (train.classes.size() == 1) {
      findings->push_back({Level::kFails, "one_class", "train: all rows have the class " + train.classes[0].name,
                           "a classifier needs two classes or more", train.rows});
    }
    const Manifest& manifest = *opened.data().splits.front().manifest;
    if (!manifest.has_tags()) find_unbalanced(train, findings);  // most words are none of those that are looked for
    for (std::size_t split = 1; split < figures.size(); ++split) {
      if (has_own_labels(opened.data().splits[split])) compare_classes(train, figures[split], manifest, findings);
    }
  }
  find_conflicts(opened, samples, findings);
}

}  // namespace bascule
