// SPDX-License-Identifier: Apache-2.0
#include "src/record/tagged_words.h"

#include <algorithm>
#include <string>

#include "src/base/count_of.h"

namespace bascule {

std::vector<std::int32_t> further_tags(const ModelInputs& model) {
  const std::vector<std::string>& names = model.class_names;
  std::vector<std::int32_t> tags;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool begins = names[i].rfind("B-", 0) == 0;
    const auto inside = begins ? std::find(names.begin(), names.end(), "I-" + names[i].substr(2)) : names.end();
    tags.push_back(
        static_cast<std::int32_t>(inside == names.end() ? static_cast<std::ptrdiff_t>(i) : inside - names.begin()));
  }
  return tags;
}

void note_cut_words(RecordedRun* run) {
  for (const RecordedSplit& split : run->data.splits) {
    const std::int64_t cut = run->data.plan.streams[split.stream].texts[0].cut;
    if (cut == 0) continue;
    std::int64_t words = 0;
    for (std::int64_t row = 0; row < split.manifest->rows(); ++row) {
      const std::string_view text = split.manifest->row(row).text;
      words += std::count(text.begin(), text.end(), '\0');
    }
    run->notes.push_back("data: " + std::to_string(cut) + " of " + count_of(words, "word") + " of " +
                         split.manifest->name() + (cut == 1 ? " is" : " are") + " cut off at data.max_seq_length = " +
                         std::to_string(run->settings.data.max_seq_length) + " tokens, and neither trained nor judged");
  }
}

}  // namespace bascule
