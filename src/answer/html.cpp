// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "src/answer/report.h"
#include "src/base/error.h"

namespace bascule {
namespace {

void add_figure(std::string& out, const std::string& name, const std::string& value, const std::string& unit,
                const std::string& note) {
  out += "<div class=\"figure\"><span>" + html_escape(name) + "</span><b>" + html_escape(value) +
         (unit.empty() ? "" : " <small>" + html_escape(unit) + "</small>") + "</b><i>" + html_escape(note) +
         "</i></div>\n";
}

// The metrics that have a place there, in the order of their places.
std::vector<Metric> in_order(Metrics metrics, int Metric::*place) {
  std::vector<Metric> some;
  std::copy_if(metrics.begin(), metrics.end(), std::back_inserter(some),
               [&](const Metric& metric) { return metric.*place > 0; });
  std::stable_sort(some.begin(), some.end(), [&](const Metric& a, const Metric& b) { return a.*place < b.*place; });
  return some;
}

void add_metric_figures(std::string& out, Metrics metrics, const EvaluationRecord& record) {
  const std::string split = split_name(record.split);
  if (std::isnan(record.loss)) return;  // of rows without labels
  add_figure(out, split + " loss", readable_number(record.loss), "",
             readable_count(record.samples) + " " + noun_for(record.samples, "sample"));
  for (const Metric& metric : in_order(metrics, &Metric::headline)) {
    if (!std::isnan(record[metric])) add_figure(out, metric.title, readable_metric(metric, record[metric]), "", split);
  }
}

std::string headline(const Report& report) {
  std::string out = "<div class=\"figures\">\n";
  if (report.train.done) {
    const WholeRun& whole = report.train.whole;
    const bool resumed = whole.processes > 1;
    const std::string last_process =
        report.train.trained_here()
            ? std::string("; whole run; last process ") + readable_number(report.train.samples_per_second).c_str()
            : "; whole run; the last process did not train";
    add_figure(out, "throughput", readable_number(whole.samples_per_second), "samples/s",
               throughput_counts(report.train.counts_warmup) + (resumed ? last_process : ""));
    add_figure(out, "training time", readable_seconds(whole.seconds), "",
               std::string(kTrainingTimeCounts) + "; " + readable_count(report.global_step) + " " +
                   noun_for(report.global_step, "step") + ", " + html_number(report.epoch) + " " +
                   noun_for(report.epoch, "epoch") +
                   (resumed ? ", " + std::to_string(whole.processes) + " processes" : ""));
    add_figure(out, "mean training loss", readable_number(report.train.train_loss), "",
               report.steps.empty() ? "" : std::string("last ") + readable_number(report.steps.back().loss));
  }
  const EvaluationRecord* record = last_evaluation(report, Split::kTest);
  if (record == nullptr) record = last_evaluation(report, Split::kValidation);
  if (record != nullptr) add_metric_figures(out, report.metrics, *record);
  if (report.planned_bytes != 0) {
    add_figure(out, "memory, planned", readable_bytes(report.planned_bytes), "",
               report.resident_bytes == 0 ? "" : std::string("resident ") + readable_bytes(report.resident_bytes));
  }
  if (!report.contracts.empty()) {
    const auto in_state = [&](ContractState state) {
      return std::to_string(std::count_if(report.contracts.begin(), report.contracts.end(),
                                          [&](const ContractResult& contract) { return contract.state == state; }));
    };
    const std::string broken = in_state(ContractState::kBroken), unknown = in_state(ContractState::kNotChecked);
    add_figure(out, "contracts", in_state(ContractState::kKept), "kept",
               (broken == "0" ? "" : broken + " broken, ") + unknown + " not checked");
  }
  return out + "</div>\n";
}

double as_x(std::int64_t step) { return static_cast<double>(step); }

// As many as can be told apart in one chart.
constexpr std::size_t kMostLines = 4;

// All charts of a run share their horizontal axis.
ChartOptions options_for(const Report& report, const std::string& title) {
  ChartOptions options;
  options.title = title;
  options.x_high = as_x(report.global_step);
  return options;
}

std::string loss_chart(const Report& report) {
  ChartSeries training{"training", {}, true, false};
  ChartSeries validation{"validation", {}, false, true};
  for (const StepRecord& record : report.steps) training.points.push_back({as_x(record.global_step), record.loss});
  for (const EvaluationRecord& record : report.evaluations) {
    if (record.split == Split::kValidation) validation.points.push_back({as_x(record.global_step), record.loss});
  }
  ChartSeries average{"validation, averaged weights", {}, false, true};
  for (const EvaluationRecord& record : report.averaged_curve)
    average.points.push_back({as_x(record.global_step), record.loss});
  std::vector<ChartSeries> all = {training, validation};
  if (!average.points.empty()) all.push_back(average);
  return line_chart(options_for(report, kLossTitle), all);
}

std::string step_chart(const Report& report, const char* title, double StepRecord::*field, bool smooth, bool fill) {
  ChartSeries series{title, {}, smooth, false};
  for (const StepRecord& record : report.steps) series.points.push_back({as_x(record.global_step), record.*field});
  ChartOptions options = options_for(report, title);
  options.from_zero = true;
  options.fill = fill;
  return line_chart(options, {series});
}

// The phases that took the most time, in the order of a step.
std::vector<int> longest_phases(const Report& report) {
  double seconds[kStepPhases] = {};
  for (const StepRecord& record : report.steps) {
    for (int phase = 0; phase < kStepPhases; ++phase) seconds[phase] += record.seconds[phase];
  }
  std::vector<int> phases;
  for (int phase = 0; phase < kStepPhases; ++phase) {
    if (seconds[phase] > 0.0) phases.push_back(phase);
  }
  std::stable_sort(phases.begin(), phases.end(), [&](int a, int b) { return seconds[a] > seconds[b]; });
  phases.resize(std::min(phases.size(), kMostLines));
  std::sort(phases.begin(), phases.end());
  return phases;
}

// Milliseconds a step by phase: what a slow loader or a busy neighbour did, and when.
std::string phase_chart(const Report& report) {
  std::vector<ChartSeries> lines;
  for (const int phase : longest_phases(report)) {
    ChartSeries series{step_phase_name(static_cast<StepPhase>(phase)), {}, false, false};
    for (const StepRecord& record : report.steps) {
      const double steps = static_cast<double>(std::max<std::int64_t>(record.steps, 1));
      series.points.push_back({as_x(record.global_step), record.seconds[phase] / steps * 1e3});
    }
    lines.push_back(series);
  }
  ChartOptions options = options_for(report, "Time of a step, ms");
  options.unit = "ms";
  options.from_zero = true;
  return line_chart(options, lines);
}

// A chart of what validations measured beside the loss: fractions in percent, or the other figures. "" for fewer than
// two validations.
std::string metric_chart(const Report& report, const std::string& title, const std::vector<EvaluationRecord>& records,
                         bool fractions) {
  std::vector<ChartSeries> lines;
  for (const Metric& metric : in_order(report.metrics, &Metric::curve)) {
    ChartSeries series{metric.title, {}, false, true};
    for (const EvaluationRecord& record : records) {
      if (record.split != Split::kValidation || std::isnan(record[metric])) continue;
      series.points.push_back({as_x(record.global_step), (fractions ? 100.0 : 1.0) * record[metric]});
    }
    if (metric.is_fraction == fractions && series.points.size() > 1 && lines.size() < kMostLines)
      lines.push_back(series);
  }
  ChartOptions options = options_for(report, fractions ? title + ", %" : title);
  options.unit = fractions ? "%" : "";
  options.from_zero = true;
  return line_chart(options, lines);
}

// The weights and their average in charts of their own: in one, nobody could tell the lines apart.
std::string metric_charts(const Report& report) {
  std::string out;
  for (const bool fractions : {true, false}) {
    out += metric_chart(report, "Validation", report.evaluations, fractions) +
           metric_chart(report, "Validation of the averaged weights", report.averaged_curve, fractions);
  }
  return out;
}

std::string charts(const Report& report) {
  if (report.steps.empty()) return "";
  return "<div class=\"charts\">\n" + loss_chart(report) + metric_charts(report) +
         step_chart(report, kLearningRateTitle, &StepRecord::learning_rate, false, true) +
         step_chart(report, kGradientNormTitle, &StepRecord::grad_norm, true, false) +
         step_chart(report, kSamplesTitle, &StepRecord::samples_per_second, true, true) + phase_chart(report) +
         "</div>\n";
}

std::string subtitle(const Report& report) {
  std::string out = html_escape(report.architecture) + " from <code>" + html_escape(report.model_name) +
                    "</code> on <code>" + html_escape(report.dataset) + "</code>";
  if (report.parameters > 0) out += " · " + readable_count(report.parameters) + " parameters";
  if (report.parameters > 0 && report.trained_parameters != report.parameters)
    out += ", " + readable_count(report.trained_parameters) + " trained";
  return out;
}

struct Part {
  std::string name;
  double share = 0.0;  // of the whole, 0..1
  std::string value;
  std::string note;
};

// A bar cut into the parts' shares; pointing at a part names it.
std::string stacked_bar(const std::vector<Part>& parts) {
  std::string out = "<div class=\"stack\">";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].share < 1e-4) continue;
    const std::string percent = readable_percent(parts[i].share);
    out += "<span class=\"" + colour_class(i) + "\" style=\"flex-grow:" + html_number(parts[i].share * 1000.0) +
           "\" title=\"" + html_escape(parts[i].name) + ": " + parts[i].value + ", " + percent + "\">" +
           (parts[i].share >= 0.07 ? "<b>" + html_escape(parts[i].name) + "</b>" : std::string()) + "</span>";
  }
  return out + "</div>\n";
}

std::string parts_table(const std::vector<Part>& parts, const char* name, const char* value) {
  Table table{name, {name, number(value), number("share")}};
  table.has_colours = true;
  if (std::any_of(parts.begin(), parts.end(), [](const Part& part) { return !part.note.empty(); }))
    table.columns.push_back({"note", ColumnKind::kNote});
  for (const Part& part : parts) {
    table.rows.push_back({part.name, part.value, readable_percent(part.share)});
    if (table.columns.size() > 3) table.rows.back().push_back(part.note);
  }
  return html_of(table);
}

std::string memory_section(const Report& report) {
  std::uint64_t sum = 0;
  for (const MemoryCategory& category : report.memory) sum += category.bytes;
  if (sum == 0) return "";
  std::vector<Part> parts;
  for (const MemoryCategory& category : report.memory) {
    parts.push_back({category.name, static_cast<double>(category.bytes) / static_cast<double>(sum),
                     readable_bytes(category.bytes), category.note});
  }
  std::string line = std::string("Planned before the first step: <b>") + readable_bytes(report.planned_bytes) + "</b>";
  if (report.resident_bytes != 0) {
    line += std::string("; resident: <b>") + readable_bytes(report.resident_bytes) + "</b>";
  }
  if (report.lower_bound_bytes != 0) {
    line += std::string("; lower bound for any placement: <b>") + readable_bytes(report.lower_bound_bytes) + "</b>";
  }
  if (report.machine_bytes != 0) {
    line += std::string("; this machine has <b>") + readable_bytes(report.machine_bytes) + "</b>";
  }
  if (!report.recomputation.empty()) line += ". Recomputation: " + html_escape(report.recomputation);
  std::string out =
      "<p class=\"lead\">" + line + ".</p>\n" + stacked_bar(parts) + parts_table(parts, "category", "bytes");
  if (!report.arena_svg.empty()) {
    out +=
        "<h3>The workspace over one step</h3>\n<p>From left to right: operations. Upwards: places in memory. Point at "
        "a rectangle to see its tensor.</p>\n<div class=\"wide arena\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"The workspace over one step\">" +
        report.arena_svg + "</div>\n";
  }
  return out;
}

std::string time_section(const Report& report) {
  std::string out;
  std::vector<Part> parts;
  for (const StepShare& one : step_shares(report.train.totals))
    parts.push_back({one.name, one.share, readable_seconds(one.seconds), ""});
  if (!parts.empty()) {
    const StepTotals& totals = report.train.totals;
    const double steps = static_cast<double>(std::max<std::int64_t>(totals.steps, 1));
    out += std::string("<p class=\"lead\">A step takes <b>") + readable_seconds(totals.wall_seconds / steps) +
           "</b> on average over " + readable_count(totals.steps) + " " + noun_for(totals.steps, "step") +
           ". Evaluation took " + readable_seconds(report.train.evaluation_seconds) + " and saving " +
           readable_seconds(report.train.save_seconds) + " in total, not included.</p>\n" + stacked_bar(parts) +
           parts_table(parts, "part of a step", "time per step");
  }
  return out + html_with_heading(operations_table(report.operations));
}

std::string contracts_section(const Report& report) {
  if (report.contracts.empty()) return "";
  constexpr const char* kKinds[][2] = {{"kept", "✓ kept"}, {"broken", "✗ broken"}, {"unknown", "not checked"}};
  std::string out = "<ul class=\"contracts\">\n";
  for (const ContractResult& contract : report.contracts) {
    const auto& [kind, word] = kKinds[static_cast<int>(contract.state)];
    out += std::string("<li class=\"") + kind + "\"><b>" + html_escape(contract.name) + "</b><span class=\"pill\">" +
           word + "</span><p>" + html_escape(contract.detail) + "</p></li>\n";
  }
  return out + "</ul>\n";
}

// One column of figures: the loss, or a metric.
struct Figure {
  const Metric* metric;  // null: the loss

  const char* title() const { return metric == nullptr ? "loss" : metric->title; }
  bool has_best() const { return metric == nullptr || metric->has_best; }
  bool smaller_is_better() const { return metric == nullptr || metric->smaller_is_better; }
  double of(const EvaluationRecord& record) const { return metric == nullptr ? record.loss : record[*metric]; }
  std::string text(double value) const {
    if (std::isnan(value)) return "";
    return metric == nullptr ? readable_number(value).c_str() : readable_metric(*metric, value).c_str();
  }
};

std::vector<Figure> figures_of(const Report& report) {
  std::vector<Figure> figures = {{nullptr}};
  for (const Metric& metric : report.metrics) {
    const bool present = std::any_of(report.evaluations.begin(), report.evaluations.end(),
                                     [&](const EvaluationRecord& record) { return !std::isnan(record[metric]); });
    if (present) figures.push_back({&metric});
  }
  return figures;
}

// Every evaluation, by split and step; behind that of the weights the one of their average.
std::vector<EvaluationRecord> rows_of(const Report& report) {
  std::vector<EvaluationRecord> rows = report.evaluations;
  rows.insert(rows.end(), report.averaged_curve.begin(), report.averaged_curve.end());
  for (const EvaluationRecord& last : report.averaged_evaluations) {
    const bool is_there =
        std::any_of(report.averaged_curve.begin(), report.averaged_curve.end(), [&](const EvaluationRecord& record) {
          return record.split == last.split && record.global_step == last.global_step;
        });
    if (!is_there) rows.push_back(last);
  }
  const auto place = [](const EvaluationRecord& record) {
    return std::make_tuple(record.split, record.global_step, record.averaged);
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return rows;
}

// Whether no other evaluation of the same split is better. Neither splits nor weights and their average are compared
// with each other, and the only evaluation of a split is the best of nothing.
bool is_best_of_split(const std::vector<EvaluationRecord>& rows, const EvaluationRecord& record, const Figure& figure) {
  const double value = figure.of(record);
  if (std::isnan(value) || !figure.has_best()) return false;
  std::size_t evaluations = 0;
  for (const EvaluationRecord& other : rows) {
    if (other.split != record.split || other.averaged != record.averaged) continue;
    ++evaluations;
    if (figure.smaller_is_better() ? figure.of(other) < value : figure.of(other) > value) return false;
  }
  return evaluations > 1;
}

std::string evaluation_section(const Report& report) {
  if (report.evaluations.empty()) return "";
  const std::vector<Figure> figures = figures_of(report);
  Table table{"Evaluation", {"split", number("step"), number("epoch")}};
  for (const Figure& figure : figures) table.columns.push_back(number(figure.title()));
  table.columns.insert(table.columns.end(), {number("samples"), number("samples/s")});
  bool has_best = false;
  const std::vector<EvaluationRecord> rows = rows_of(report);
  for (const EvaluationRecord& record : rows) {
    std::vector<Cell> row = {std::string(split_name(record.split)) + (record.averaged != 0 ? ", averaged weights" : ""),
                             readable_count(record.global_step), html_number(record.epoch)};
    for (const Figure& figure : figures) {
      row.emplace_back(figure.text(figure.of(record)), is_best_of_split(rows, record, figure));
      has_best = has_best || row.back().is_best;
    }
    const double rate = record.seconds > 0.0 ? static_cast<double>(record.samples) / record.seconds : 0.0;
    row.insert(row.end(), {readable_count(record.samples), readable_number(rate)});
    table.rows.push_back(std::move(row));
  }
  const char* const best = report.averaged_evaluations.empty()
                               ? "<p class=\"lead\">The best value of each split is in bold.</p>\n"
                               : "<p class=\"lead\">The best value of each split is in bold, of the weights and of "
                                 "their average each.</p>\n";
  return (has_best ? best : "") + html_of(table);
}

std::vector<HtmlSection> make_sections(const Report& report) {
  std::vector<HtmlSection> sections = {{"Training", charts(report), false, "curves", "Training"},
                                       {"Evaluation", evaluation_section(report), true, "evaluation", "Evaluation"}};
  for (HtmlSection& section : example_sections(report)) sections.push_back(std::move(section));
  sections.push_back({"Time", time_section(report), true, "time", "Time"});
  sections.push_back({"Memory", memory_section(report), true, "memory", "Memory"});
  sections.push_back({"Contracts", contracts_section(report), false, "contracts", "Contracts"});
  std::string link = "Details";  // the tables of facts stand one behind the other: one link leads to the first
  for (std::size_t i = 0; i < report.facts.size(); ++i) {
    const FactTable& facts = report.facts[i];
    if (facts.rows.empty()) continue;
    const std::string note = facts.note.empty() ? "" : "<p class=\"lead\">" + html_escape(facts.note) + "</p>\n";
    sections.push_back({facts.title, note + html_of(facts.rows), true, "facts" + std::to_string(i), link});
    link.clear();
  }
  sections.push_back({"Settings", settings_html(report.all_settings), true, "settings", "Settings"});
  sections.push_back({"Reproducing the bits", html_of(report.provenance), true, "same-bits", "Bits"});
  return sections;
}

}  // namespace

std::string report_html(const Report& report) {
  HtmlPage page;
  page.product = "Bascule run report";
  page.title = report.title;
  page.note = report.finished_at;
  page.style = map_style(report.map) + picture_styles(report);
  page.subtitle = subtitle(report);
  page.lead = headline(report);
  page.sections = make_sections(report);
  return html_page(page);
}

}  // namespace bascule
