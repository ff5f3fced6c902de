// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "src/base/batch.h"
#include "src/base/error.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

void check_summary_column(const Settings& s) {
  const DataSettings& data = s.data;
  if (data.summary_column.empty()) return;
  if (!s.head()->reads_targets) {
    std::string heads;
    for (const HeadWords& head : s.words.heads) {
      if (head.reads_targets) heads += (heads.empty() ? "\"" : " or \"") + head.name + "\"";
    }
    refuse(s, "data.summary_column",
           "data.summary_column is set, but " +
               (heads.empty() ? "no head of this model writes a text" : "only the head " + heads + " writes a text"),
           heads.empty() ? "remove it" : "remove it, or set model.head = " + heads);
  }
  for (const std::string* const other : {&data.text_column, &data.label_column}) {
    if (data.summary_column == *other)
      refuse(s, "data.summary_column", "data.summary_column and another column are both \"" + *other + "\"",
             "give each a column of its own");
  }
}

// The keys of random numbers of a source's and a target's tokens share one range.
void check_lengths(const Settings& s) {
  const DataSettings& data = s.data;
  const std::int64_t target = std::max(data.max_target_length, data.val_max_target_length);
  const std::int64_t together = data.max_source_length + target;
  if (together <= kMaxTokensOfTexts) return;
  const bool is_of_evaluation = target > data.max_target_length;
  refuse(s, "data.max_source_length",
         "data.max_source_length = " + std::to_string(data.max_source_length) + " and data." +
             (is_of_evaluation ? "val_max_target_length" : "max_target_length") + " = " + std::to_string(target) +
             " allow " + std::to_string(together) + " tokens a sample",
         "lower them: a source and its target may have " + std::to_string(kMaxTokensOfTexts) + " together");
}

}  // namespace

void check_targets(const Settings& settings) {
  check_summary_column(settings);
  if (!settings.head()->reads_targets) return;
  check_lengths(settings);
  if (!settings.data.ignore_pad_token_for_loss && !settings.data.pad_to_max_length) {
    refuse(
        settings, "data.ignore_pad_token_for_loss",
        "data.ignore_pad_token_for_loss = false needs data.pad_to_max_length = true: without it the number of padded "
        "labels would depend on the other samples of a batch",
        "set it, or ignore_pad_token_for_loss = true");
  }
}

}  // namespace bascule
