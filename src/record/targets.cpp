// SPDX-License-Identifier: Apache-2.0
#include "src/record/targets.h"

#include <string>
#include <vector>

#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/base/shown_path.h"

namespace bascule {

void find_empty_texts(RecordedRun* run, Manifest* manifest) {
  manifest->find_empty_texts();
  const std::vector<std::int64_t>& empty = manifest->rows_with_empty_text();
  if (empty.empty()) return;
  const std::string first = manifest->where(empty.front());
  const bool is_source = is_empty_text(manifest->row(empty.front()).text);
  const std::string& column = run->data.loader.text_columns[is_source ? 0 : 1];
  if (run->settings.data.on_bad_sample == OnBadSample::kStop) {
    throw Error(ErrorKind::kData, first, "the text of column \"" + column + "\" is empty",
                "write a text, remove the row, or set data.on_bad_sample = \"skip\"");
  }
  const std::int64_t count = static_cast<std::int64_t>(empty.size());
  if (count == manifest->rows()) {
    throw Error(ErrorKind::kData, first,
                "the text of column \"" + column + "\" is empty, and no row of " + manifest->name() +
                    " has both a source and a target",
                "correct data.text_column and data.summary_column");
  }
  run->notes.push_back("index: " + std::to_string(count) + " of " + count_of(manifest->rows(), "row") + " of " +
                       manifest->name() +
                       (count == 1 ? " has an empty source or target and is skipped: "
                                   : " have an empty source or target and are skipped; the first is ") +
                       shown_path(first));
}

void note_lengths(RecordedRun* run) {
  const DataSettings& data = run->settings.data;
  for (const RecordedSplit& split : run->data.splits) {
    const bool has_own_length = split.split != Split::kTrain && data.val_max_target_length > 0;
    const std::string limits[] = {"data.max_source_length = " + std::to_string(data.max_source_length),
                                  has_own_length
                                      ? "data.val_max_target_length = " + std::to_string(data.val_max_target_length)
                                      : "data.max_target_length = " + std::to_string(data.max_target_length)};
    const TextPlan* const texts = run->data.plan.streams[split.stream].texts;
    const std::string& name = split.manifest->name();
    if (texts[0].is_limit || texts[1].is_limit) {
      run->notes.push_back("plan: the lengths of the texts in " + name + " are not known yet; planned for " +
                           limits[0] + " and " + limits[1] + "; a run measures them and may need less");
      continue;
    }
    const char* const nouns[] = {"source", "target"};
    std::string line;
    for (int text = 0; text < kMaxTexts; ++text) {
      if (texts[text].cut == 0) continue;
      line += (line.empty() ? "" : ", ") + count_of(texts[text].cut, nouns[text]) + " at " + limits[text];
    }
    if (!line.empty())
      run->notes.push_back("data: " + count_of(split.manifest->rows(), "row") + " of " + name + ": cut " + line +
                           " tokens");
  }
}

}  // namespace bascule
