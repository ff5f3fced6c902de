// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_words.h"

#include <filesystem>
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
    for (const Metric& metric : judge_named(head.judge).metrics) {
      if (metric.smaller_is_better) words.heads.back().smaller_is_better.emplace_back(metric.key);
    }
  }
  words.parts = family.parts;
  words.frozen = family.frozen;
  words.idle = family.idle;
  return words;
}

}  // namespace

ModelWords words_of_usual_family() { return words_of(usual_family()); }

ModelWords model_words(const std::string& folder) {
  const std::string config = folder + "/config.json";
  std::error_code error;
  return std::filesystem::exists(config, error) ? words_of(family_of(config)) : words_of_usual_family();
}

}  // namespace bascule
