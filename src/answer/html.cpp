// SPDX-License-Identifier: Apache-2.0
#include "src/answer/results.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <vector>

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/answer/svg_chart.h"
#include "src/answer/table.h"
#include "src/base/messages.h"
#include "src/logs/readable.h"

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

std::vector<HtmlSection> make_sections(const Report& report) {
  std::vector<HtmlSection> sections = {
      {"Training", charts(report), false, "curves", "Training"},
      {"Evaluation", evaluation_section(report), true, "evaluation", "Evaluation"},
      {"Retrieval: caption to picture", caption_examples_section(report), false, "captions", "Captions"},
      {"Retrieval: picture to caption", picture_examples_section(report), false, "pictures", "Pictures"},
      {"Retrieval: query to texts", query_examples_section(report), false, "queries", "Queries"},
      {"Map of the embeddings", embedding_map_section(report.map), true, "map", "Map"},
      {"Classes", classes_section(report), true, "classes", "Classes"},
      {"Pictures and predictions", class_examples_section(report), false, "class-examples", "Predictions"},
      {"Worst mistakes", text_mistakes_section(report), true, "text-mistakes", "Mistakes"},
      {"Entities", entities_section(report), false, "entities", "Entities"},
      {"Masked tokens", sentence_examples_section(report), false, "sentences", "Tokens"},
      {"Generated texts", text_examples_section(report), true, "texts", "Texts"},
      {"Time", time_section(report), true, "time", "Time"},
      {"Memory", memory_section(report), true, "memory", "Memory"},
      {"Contracts", contracts_section(report), false, "contracts", "Contracts"},
  };
  std::string link = "Details";  // the tables of facts stand one behind the other: one link leads to the first
  for (std::size_t i = 0; i < report.facts.size(); ++i) {
    const std::string body = facts_section(report.facts[i]);
    if (body.empty()) continue;
    sections.push_back({report.facts[i].title, body, true, "facts" + std::to_string(i), link});
    link.clear();
  }
  sections.push_back({"Settings", settings_section(report.all_settings), true, "settings", "Settings"});
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
