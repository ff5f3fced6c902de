// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/document.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "src/doctor/histogram.h"
#include "src/json/json.h"

namespace bascule {
namespace {

Json json_of(const TextFigures& figures) {
  Json bars = Json::array();
  for (const LengthBar& bar : length_bars(figures))
    bars.push_back({{"from", bar.from}, {"to", bar.to}, {"texts", bar.texts}});
  return {{"kind", figures.kind},
          {"limit", figures.limit > 0 ? Json(figures.limit) : Json(nullptr)},
          {"limit_setting", figures.limit_setting},
          {"texts", figures.texts},
          {"tokens", figures.tokens},
          {"longest", figures.longest},
          {"median", figures.quantile(0.5)},
          {"percentile_99", figures.quantile(0.99)},
          {"cut_texts", figures.cut_texts},
          {"cut_tokens", figures.cut_tokens},
          {"empty_texts", figures.empty_texts},
          {"unknown_tokens", figures.unknown_tokens},
          {"texts_with_unknown", figures.texts_with_unknown},
          {"texts_all_unknown", figures.texts_all_unknown},
          {"lengths", bars}};
}

Json json_of(const SplitFigures& split) {
  Json texts = Json::array(), classes = Json::array();
  for (const TextFigures& figures : split.texts) texts.push_back(json_of(figures));
  for (const ClassCount& one : split.classes) classes.push_back({{"name", one.name}, {"rows", one.rows}});
  Json json = {
      {"name", split.name}, {"file", split.file}, {"rows", split.rows}, {"texts", texts}, {"classes", classes}};
  if (split.values)
    json["values"] = {{"least", split.values->least}, {"mean", split.values->mean}, {"most", split.values->most}};
  if (split.pictures)
    json["pictures"] = {{"pictures", split.pictures->pictures},
                        {"unusable", split.pictures->unusable},
                        {"shortest_side", split.pictures->shortest_side},
                        {"longest_side", split.pictures->longest_side}};
  return json;
}

Json json_of(const Example& example) { return {{"text", example.text}, {"pictures", Json(example.pictures)}}; }

Json json_of(const Finding& finding) {
  Json examples = Json::array();
  for (std::size_t i = 0; i < std::min(kMostExamples, finding.examples.size()); ++i)
    examples.push_back(json_of(finding.examples[i]));
  return {{"level", level_name(finding.level)}, {"check", finding.check}, {"what", finding.what},
          {"what_to_do", finding.what_to_do},   {"count", finding.count}, {"examples", examples}};
}

Json json_of(const TimeFigures& time) {
  Json json = {{"planned_bytes", time.planned_bytes},
               {"memory_bytes", time.memory_bytes},
               {"batch", time.batch},
               {"largest_batch", time.largest_batch > 0 ? Json(time.largest_batch) : Json(nullptr)},
               {"updates_of_epoch", time.updates_of_epoch},
               {"epochs", time.epochs}};
  if (time.epoch_seconds) {
    json["epoch_seconds"] = *time.epoch_seconds;
    json["step_seconds"] = time.step_seconds;
    json["loading_seconds"] = time.loading_seconds;
  }
  return json;
}

// Each line of a list begins so.
constexpr char kListBegin[] = "{\"check\":\"";

}  // namespace

std::string diagnosis_list(const Diagnosis& diagnosis) {
  std::string list;
  for (const Finding& finding : diagnosis.findings) {
    for (const Example& example : finding.examples) {
      Json line = json_of(example);
      line["check"] = finding.check;
      line["level"] = level_name(finding.level);
      list += json_text(line, -1) + "\n";
    }
  }
  return list;
}

bool is_diagnosis_list(const std::string& file) {
  char begin[sizeof kListBegin - 1] = {};
  std::ifstream(file, std::ios::binary).read(begin, sizeof begin);
  return std::string_view(begin, sizeof begin) == kListBegin;
}

std::string diagnosis_json(const Diagnosis& diagnosis) {
  Json splits = Json::array(), findings = Json::array();
  for (const SplitFigures& split : diagnosis.splits) splits.push_back(json_of(split));
  for (const Finding& finding : diagnosis.findings) findings.push_back(json_of(finding));
  Json document = {{"settings_file", diagnosis.settings_file},
                   {"splits", splits},
                   {"findings", findings},
                   {"exit_code", diagnosis.exit_code}};
  if (diagnosis.batches) {
    const BatchFigures& batches = *diagnosis.batches;
    document["false_negatives"] = {{"batch", batches.batch},
                                   {"rows", batches.rows},
                                   {"equal_pairs", batches.equal_pairs},
                                   {"rows_in_pairs", batches.rows_in_pairs},
                                   {"loss_floor", batches.loss_floor}};
  }
  if (diagnosis.time) document["training"] = json_of(*diagnosis.time);
  return json_text(document, 2) + "\n";
}

}  // namespace bascule
