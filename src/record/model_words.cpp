// SPDX-License-Identifier: Apache-2.0
#include "src/record/model_words.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "src/base/error.h"
#include "src/judge/judges.h"
#include "src/models/families.h"

namespace bascule {
namespace {

ModelWords words_of(const Family& family) {
  ModelWords words;
  for (const FamilyHead& head : family.heads) {
    words.heads.push_back(head.words);
    for (const std::string_view judge : {std::string_view(head.judge), std::string_view(head.judge_of_values)}) {
      if (judge.empty()) continue;
      for (const Metric& metric : judge_named(judge).metrics) {
        if (metric.smaller_is_better) words.heads.back().smaller_is_better.emplace_back(metric.key);
      }
    }
  }
  words.parts = family.parts;
  words.frozen = family.frozen;
  words.idle = family.idle;
  return words;
}

// For a model that is missing: what each family allows, so that the error names the missing model, not a word.
ModelWords words_of_all_families() {
  ModelWords all = words_of(usual_family());
  for (const Family* family : families()) {
    const ModelWords words = words_of(*family);
    for (const HeadWords& head : words.heads) {
      const auto is_same = [&](const HeadWords& one) { return one.name == head.name; };
      if (std::none_of(all.heads.begin(), all.heads.end(), is_same)) all.heads.push_back(head);
    }
    for (const std::string& part : words.parts) {
      if (std::find(all.parts.begin(), all.parts.end(), part) == all.parts.end()) all.parts.push_back(part);
    }
  }
  all.draws = true;
  for (HeadWords& head : all.heads)
    head.reads_labels = head.has_classes = head.mixes_labels = head.reads_targets = head.reads_words = true;
  return all;
}

}  // namespace

ModelWords words_of_usual_family() { return words_of(usual_family()); }

ModelWords model_words(const std::string& folder) {
  const std::string config = folder + "/config.json";
  std::error_code error;
  if (std::filesystem::exists(folder + "/model_index.json", error)) {
    ModelWords words;
    words.draws = true;
    return words;
  }
  return std::filesystem::exists(config, error) ? words_of(family_of(config)) : words_of_all_families();
}

}  // namespace bascule
