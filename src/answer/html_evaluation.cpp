// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/answer/table.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

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

}  // namespace

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

namespace {

// Whether the right one must be shown behind the hits, with its rank.
template <typename Example>
bool is_missed(const Example& example) {
  return example.right_rank > 0 &&
         std::none_of(example.hits.begin(), example.hits.end(), [](const auto& hit) { return hit.right; });
}

std::string rank_text(std::int64_t rank) { return std::string("rank ") + readable_count(rank); }

std::string picture_item(const Report& report, const PictureHit& hit, const std::string& note) {
  return std::string("<li") + (hit.right ? " class=\"right\"" : "") + ">" +
         picture_element(report, hit.picture, "small") + "<span>" + score_text(hit.score) + (hit.right ? " ✓" : "") +
         note + "</span></li>\n";
}

std::string caption_item(const CaptionHit& hit, const std::string& note) {
  return std::string("<li") + (hit.right ? " class=\"right\"" : "") + "><span class=\"score\">" +
         score_text(hit.score) + note + "</span><span class=\"clamped\" dir=\"auto\">" + html_escape(hit.caption) +
         "</span>" + (hit.right ? "<b>✓</b>" : "") + "</li>\n";
}

}  // namespace

std::string picture_element(const Report& report, std::size_t index, const char* extra_class) {
  if (index >= report.pictures.size()) return std::string("<div class=\"picture ") + extra_class + "\"></div>";
  const ReportPicture& shown = report.pictures[index];
  const std::string alternative = shown.caption.empty() ? shown.name : shown.caption;
  return std::string("<div class=\"picture ") + extra_class + " p" + std::to_string(index) +
         "\" role=\"img\" aria-label=\"" + html_escape(alternative) + "\" title=\"" + html_escape(shown.name) +
         "\"></div>";
}

std::string caption_examples_section(const Report& report) {
  if (report.caption_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">For each caption, the five nearest pictures of the split with their scores. The correct one "
      "is framed; if it is not among the five, it follows with its rank.</p>\n<div class=\"queries\">\n";
  for (const CaptionExample& example : report.caption_examples) {
    out += "<article class=\"query\"><blockquote class=\"clamped\" dir=\"auto\">" + html_escape(example.caption) +
           "</blockquote><ol class=\"hits\">\n";
    for (const PictureHit& hit : example.hits) out += picture_item(report, hit, "");
    if (is_missed(example)) out += picture_item(report, example.right_hit, "<br>" + rank_text(example.right_rank));
    out += "</ol></article>\n";
  }
  return out + "</div>\n";
}

std::string picture_examples_section(const Report& report) {
  if (report.picture_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">For each picture, the five nearest captions of the split with their scores. Correct ones are "
      "marked; if none is among the five, the best of them follows with its rank.</p>\n<div class=\"queries\">\n";
  for (const PictureExample& example : report.picture_examples) {
    out += "<article class=\"query from-picture\">" + picture_element(report, example.picture, "large") + "<div><ol>\n";
    for (const CaptionHit& hit : example.hits) out += caption_item(hit, "");
    if (is_missed(example)) out += caption_item(example.right_hit, "<br>" + rank_text(example.right_rank));
    out += "</ol></div></article>\n";
  }
  return out + "</div>\n";
}

std::string query_examples_section(const Report& report) {
  if (report.query_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">For queries of the split, evenly spaced, the five nearest texts with their scores. Relevant "
      "ones "
      "are marked; if none is among the five, the best of them follows with its rank.</p>\n<div class=\"queries\">\n";
  for (const QueryExample& example : report.query_examples) {
    out += "<article class=\"query\"><blockquote class=\"clamped\" dir=\"auto\">" + html_escape(example.query) +
           "</blockquote><ol>\n";
    for (const CaptionHit& hit : example.hits) out += caption_item(hit, "");
    if (is_missed(example)) out += caption_item(example.right_hit, "<br>" + rank_text(example.right_rank));
    out += "</ol></article>\n";
  }
  return out + "</div>\n";
}

std::string picture_styles(const Report& report) {
  std::vector<bool> shown(report.pictures.size(), false);
  const auto show = [&shown](std::size_t index) {
    if (index < shown.size()) shown[index] = true;
  };
  for (const CaptionExample& example : report.caption_examples) {
    for (const PictureHit& hit : example.hits) show(hit.picture);
    if (is_missed(example)) show(example.right_hit.picture);
  }
  for (const PictureExample& example : report.picture_examples) show(example.picture);
  for (const ClassExample& example : report.class_examples) show(example.picture);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i]) continue;
    out += ".p" + std::to_string(i) + "{background-image:url(" + picture_url(report.pictures[i].file) + ")}\n";
  }
  return out;
}

}  // namespace bascule
