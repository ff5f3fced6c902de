// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/finding.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "src/base/error.h"
#include "src/doctor/data.h"
#include "src/json/json.h"
#include "src/json/members.h"

namespace bascule {

constexpr auto members_of(const LengthBar*) {
  using B = LengthBar;
  return std::make_tuple(named("from", &B::from), named("to", &B::to), named("texts", &B::texts));
}
constexpr auto members_of(const TextFigures*) {
  using F = TextFigures;
  return std::make_tuple(named("kind", &F::kind), named("limit_setting", &F::limit_setting), named("texts", &F::texts),
                         named("tokens", &F::tokens), named("longest", &F::longest), named("cut_texts", &F::cut_texts),
                         named("cut_tokens", &F::cut_tokens), named("empty_texts", &F::empty_texts),
                         named("unknown_tokens", &F::unknown_tokens),
                         named("texts_with_unknown", &F::texts_with_unknown),
                         named("texts_all_unknown", &F::texts_all_unknown));
}
constexpr auto members_of(const ClassCount*) {
  return std::make_tuple(named("name", &ClassCount::name), named("rows", &ClassCount::rows));
}
constexpr auto members_of(const ValueFigures*) {
  using F = ValueFigures;
  return std::make_tuple(named("least", &F::least), named("mean", &F::mean), named("most", &F::most));
}
constexpr auto members_of(const PictureFigures*) {
  using F = PictureFigures;
  return std::make_tuple(named("pictures", &F::pictures), named("unusable", &F::unusable),
                         named("shortest_side", &F::shortest_side), named("longest_side", &F::longest_side));
}
constexpr auto members_of(const BatchFigures*) {
  using F = BatchFigures;
  return std::make_tuple(named("batch", &F::batch), named("rows", &F::rows), named("equal_pairs", &F::equal_pairs),
                         named("rows_in_pairs", &F::rows_in_pairs), named("loss_floor", &F::loss_floor));
}
constexpr auto members_of(const Example*) {
  return std::make_tuple(named("text", &Example::text), named("pictures", &Example::pictures));
}

namespace {

Json json_of(const TextFigures& figures) {
  Json json = written(figures);
  json["limit"] = figures.limit > 0 ? Json(figures.limit) : Json(nullptr);
  json["median"] = figures.quantile(0.5);
  json["percentile_99"] = figures.quantile(0.99);
  json["lengths"] = written(length_bars(figures));
  return json;
}

Json json_of(const SplitFigures& split) {
  Json json = {{"name", split.name}, {"file", split.file}, {"rows", split.rows}, {"classes", written(split.classes)}};
  json["texts"] = Json::array();
  for (const TextFigures& figures : split.texts) json["texts"].push_back(json_of(figures));
  if (split.values) json["values"] = written(*split.values);
  if (split.pictures) json["pictures"] = written(*split.pictures);
  return json;
}

Json json_of(const Finding& finding) {
  const std::size_t shown = std::min(kMostExamples, finding.examples.size());
  const std::vector<Example> examples(finding.examples.begin(),
                                      finding.examples.begin() + static_cast<std::ptrdiff_t>(shown));
  return {{"level", level_name(finding.level)}, {"check", finding.check}, {"what", finding.what},
          {"what_to_do", finding.what_to_do},   {"count", finding.count}, {"examples", written(examples)}};
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

std::string count_text(std::int64_t count) { return readable_count(count); }

std::string counted(std::int64_t count, const std::string& noun) {
  return count_text(count) + " " + noun_for(count, noun);
}

std::string share_text(std::int64_t part, std::int64_t all) {
  if (all == 0 || part == 0) return "0 %";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(all);
  return part == all ? "100 %" : formatted(percent < 10.0 ? "%.2g %%" : "%.1f %%", percent);
}

const char* level_name(Level level) {
  constexpr const char* kNames[] = {"fails", "warning", "note"};
  return kNames[static_cast<int>(level)];
}

std::string diagnosis_list(const Diagnosis& diagnosis) {
  std::string list;
  for (const Finding& finding : diagnosis.findings) {
    for (const Example& example : finding.examples) {
      Json line = written(example);
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
  if (diagnosis.batches) document["false_negatives"] = written(*diagnosis.batches);
  if (diagnosis.time) document["training"] = json_of(*diagnosis.time);
  return json_text(document, 2) + "\n";
}

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
