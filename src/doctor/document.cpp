// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/document.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "src/base/messages.h"
#include "src/doctor/finding.h"
#include "src/doctor/texts.h"
#include "src/json/json.h"
#include "src/logs/readable.h"

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

namespace {

constexpr std::size_t kShownExamples = 3, kShownClasses = 8;

std::string lengths_line(const TextFigures& figures) {
  std::string line = "median " + count_text(figures.quantile(0.5)) + " tokens, 99 % at most " +
                     count_text(figures.quantile(0.99)) + ", longest " + count_text(figures.longest);
  if (figures.limit > 0) line += "; cut at " + count_text(figures.limit);
  return line;
}

std::string classes_line(const SplitFigures& split) {
  std::vector<ClassCount> classes = split.classes;
  std::stable_sort(classes.begin(), classes.end(),
                   [](const ClassCount& a, const ClassCount& b) { return a.rows > b.rows; });
  std::string line = count_text(static_cast<std::int64_t>(classes.size())) + ": ";
  for (std::size_t i = 0; i < std::min(kShownClasses, classes.size()); ++i)
    line += (i > 0 ? ", " : "") + classes[i].name + " " + count_text(classes[i].rows);
  return classes.size() > kShownClasses ? line + ", ..." : line;
}

std::string finding_text(const Finding& finding) {
  std::string text = formatted("\n%-8s ", level_name(finding.level)) + finding.what + "\n";
  if (!finding.what_to_do.empty()) text += "         " + finding.what_to_do + "\n";
  for (std::size_t i = 0; i < std::min(kShownExamples, finding.examples.size()); ++i)
    text += "         - " + finding.examples[i].text + "\n";
  return text;
}

// "3 epochs", "0.5000 epochs".
std::string epochs_text(double epochs) {
  const auto whole = static_cast<std::int64_t>(epochs);
  return static_cast<double>(whole) == epochs ? counted(whole, "epoch") : readable_number(epochs) + " epochs";
}

void add_time(const TimeFigures& time, std::vector<NamedText>* lines) {
  lines->push_back({"memory", readable_bytes(static_cast<std::uint64_t>(time.planned_bytes)) + " planned, " +
                                  readable_bytes(static_cast<std::uint64_t>(time.memory_bytes)) + " there"});
  if (time.updates_of_epoch == 0) return;
  lines->push_back({"batch", count_text(time.batch) + "; the largest that fits: " +
                                 (time.largest_batch > 0 ? count_text(time.largest_batch) : std::string("none")) +
                                 (time.largest_is_all_rows ? ", all rows" : "")});
  std::string epoch = counted(time.updates_of_epoch, "update");
  if (time.epoch_seconds) {
    epoch += std::string(", about ") + readable_seconds(*time.epoch_seconds) +
             " without evaluation and saving; all of training, " + epochs_text(time.epochs) + ", " +
             readable_seconds(time.epochs * *time.epoch_seconds);
  } else {
    epoch += "; --profile FILE says how long it takes (`bascule bringup --save FILE` makes one)";
  }
  lines->push_back({"epoch", epoch});
}

}  // namespace

std::vector<NamedText> lines_of(const SplitFigures& split) {
  std::vector<NamedText> lines;
  if (split.pictures) {
    std::string line = count_text(split.pictures->pictures);
    if (split.pictures->longest_side > 0)
      line += ", sides from " + count_text(split.pictures->shortest_side) + " to " +
              count_text(split.pictures->longest_side) + " pixels";
    lines.push_back({"pictures", line});
  }
  for (const TextFigures& figures : split.texts) lines.push_back({figures.kind, lengths_line(figures)});
  if (!split.classes.empty()) lines.push_back({"classes", classes_line(split)});
  if (split.values)
    lines.push_back({"values", readable_number(split.values->least) + " to " + readable_number(split.values->most) +
                                   ", mean " + readable_number(split.values->mean)});
  return lines;
}

std::vector<NamedText> lines_of(const Diagnosis& diagnosis) {
  std::vector<NamedText> lines;
  if (diagnosis.batches) {
    const BatchFigures& batches = *diagnosis.batches;
    lines.push_back(
        {"false negatives", batches.equal_pairs == 0.0
                                ? "none"
                                : formatted("%.3g pairs and %.3g rows of a batch of %lld; the loss cannot fall "
                                            "below %.3g without dropout and random changes of pictures",
                                            batches.equal_pairs, batches.rows_in_pairs,
                                            static_cast<long long>(batches.batch), batches.loss_floor)});
  }
  if (diagnosis.time) add_time(*diagnosis.time, &lines);
  return lines;
}

std::string verdict_of(const Diagnosis& diagnosis) {
  std::int64_t counts[3] = {};
  for (const Finding& finding : diagnosis.findings) ++counts[static_cast<int>(finding.level)];
  const std::string others = counted(counts[1], "warning") + ", " + counted(counts[2], "note");
  return counts[0] == 0
             ? "nothing stops this run; " + others
             : counted(counts[0], "problem") + (counts[0] == 1 ? " stops" : " stop") + " this run; " + others;
}

Table lengths_of(const TextFigures& figures, const SplitFigures& split) {
  const std::vector<LengthBar> bars = length_bars(figures);
  std::int64_t most = 1;
  for (const LengthBar& bar : bars) most = std::max(most, bar.texts);
  Table table{"Tokens of " + figures.kind + ", " + split.name,
              {"tokens", number(figures.kind), "at the limit", {"share", ColumnKind::kBar}}};
  for (const LengthBar& bar : bars)
    table.rows.push_back({count_text(bar.from) + (bar.to > bar.from ? " to " + count_text(bar.to) : ""),
                          count_text(bar.texts),
                          bar.cut == 0           ? ""
                          : bar.cut == bar.texts ? "cut"
                                                 : "partly cut",
                          bar_cell(static_cast<double>(bar.texts) / static_cast<double>(most))});
  return table;
}

std::string diagnosis_text(const Diagnosis& diagnosis) {
  std::string text = "doctor: " + diagnosis.settings_file + "\n";
  for (const SplitFigures& split : diagnosis.splits)
    text += formatted("%-12s ", split.name.c_str()) + counted(split.rows, "row") + ", " + split.file + "\n" +
            text_of(lines_of(split));
  const std::vector<NamedText> lines = lines_of(diagnosis);
  text += (lines.empty() ? "" : "run\n") + text_of(lines);
  if (!diagnosis.splits.empty()) {
    for (const TextFigures& figures : diagnosis.splits.front().texts) {
      const Table lengths = lengths_of(figures, diagnosis.splits.front());
      text += "\n" + lengths.name + "\n" + text_of(lengths);
    }
  }
  for (const Finding& finding : diagnosis.findings) text += finding_text(finding);
  return text + "\n" + verdict_of(diagnosis) + "\n";
}

}  // namespace bascule
