// SPDX-License-Identifier: Apache-2.0
#include "src/judge/class_examples.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "src/judge/examples.h"

namespace bascule {
namespace {

constexpr std::int64_t kPictures = 12;
constexpr std::size_t kConfusions = 10, kMistakes = 12;

std::string class_name(std::int32_t id, const std::vector<std::string>& names) {
  const std::size_t at = static_cast<std::size_t>(id);
  return at < names.size() ? names[at] : std::to_string(id);
}

// The least accurate first; classes without a row are left out.
void add_accuracies(Report* report, const JudgedClasses& judged, const std::vector<std::string>& names) {
  std::map<std::int32_t, ClassAccuracy> classes;
  for (const std::int32_t row : judged.rows) {
    const std::int32_t label = judged.labels[row];
    ClassAccuracy& one = classes[label];
    ++one.rows;
    one.right += judged.best[row * judged.stride].id == label ? 1 : 0;
  }
  for (auto& [id, one] : classes) {
    one.name = class_name(id, names);
    report->class_accuracies.push_back(std::move(one));
  }
  std::stable_sort(report->class_accuracies.begin(), report->class_accuracies.end(),
                   [](const ClassAccuracy& a, const ClassAccuracy& b) { return a.right * b.rows < b.right * a.rows; });
}

void add_confusions(Report* report, const JudgedClasses& judged, const std::vector<std::string>& names) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;
  for (const std::int32_t row : judged.rows) {
    const std::int32_t label = judged.labels[row], predicted = judged.best[row * judged.stride].id;
    if (label != predicted) ++counts[{label, predicted}];
  }
  for (const auto& [pair, rows] : counts)
    report->confusions.push_back({class_name(pair.first, names), class_name(pair.second, names), rows});
  std::stable_sort(report->confusions.begin(), report->confusions.end(),
                   [](const Confusion& a, const Confusion& b) { return a.rows > b.rows; });
  if (report->confusions.size() > kConfusions) report->confusions.resize(kConfusions);
}

std::vector<Guess> guesses_of(const JudgedClasses& judged, std::int64_t row, const std::vector<std::string>& names) {
  std::vector<Guess> guesses;
  for (std::int64_t i = 0; i < judged.shown; ++i) {
    const ClassPrediction& one = judged.best[row * judged.stride + i];
    guesses.push_back({class_name(one.id, names), static_cast<double>(one.probability), one.id == judged.labels[row]});
  }
  return guesses;
}

void add_pictures(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                  const std::vector<std::string>& names) {
  PictureShelf shelf(report, manifest);
  for (const std::int64_t row : evenly_spaced({judged.rows.begin(), judged.rows.end()}, kPictures))
    report->class_examples.push_back(
        {shelf.add(row), class_name(judged.labels[row], names), guesses_of(judged, row, names)});
}

void add_mistakes(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                  const std::vector<std::string>& names) {
  const auto best = [&](std::int32_t row) -> const ClassPrediction& { return judged.best[row * judged.stride]; };
  std::vector<std::int32_t> wrong;
  std::copy_if(judged.rows.begin(), judged.rows.end(), std::back_inserter(wrong),
               [&](std::int32_t row) { return best(row).id != judged.labels[row]; });
  std::stable_sort(wrong.begin(), wrong.end(),
                   [&](std::int32_t a, std::int32_t b) { return best(a).probability > best(b).probability; });
  wrong.resize(std::min(wrong.size(), kMistakes));
  for (const std::int32_t row : wrong) {
    const ManifestRow texts = manifest.row(row);
    report->text_mistakes.push_back({std::string(texts.text), std::string(texts.second_text.value_or("")),
                                     class_name(judged.labels[row], names), guesses_of(judged, row, names)});
  }
}

}  // namespace

void add_class_examples(Report* report, const JudgedClasses& judged, const Manifest& manifest,
                        const std::vector<std::string>& names) {
  add_accuracies(report, judged, names);
  add_confusions(report, judged, names);
  if (manifest.has_pictures()) {
    add_pictures(report, judged, manifest, names);
  } else {
    add_mistakes(report, judged, manifest, names);
  }
}

}  // namespace bascule
