// SPDX-License-Identifier: Apache-2.0
#include "src/answer/runs_page.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/answer/html_text.h"
#include "src/answer/svg_chart.h"
#include "src/answer/table.h"
#include "src/base/messages.h"
#include "src/base/utf8.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

std::string number_text(double number) { return std::isfinite(number) ? readable_number(number).c_str() : "-"; }

std::string step_text(const ListedRun& run) {
  std::string text = readable_count(run.step);
  if (run.steps > 0 && run.steps != run.step) text += std::string(" of ") + readable_count(run.steps);
  return text + (run.draws ? " pictures" : "");
}

std::string best_text(const ListedRun& run) {
  if (run.best_figure.empty()) return "-";
  return run.best_figure + " " + number_text(run.best) + " at " + readable_count(run.best_step);
}

Table runs_table(const std::vector<ListedRun>& runs) {
  Table table{"Runs", {"run", "state", number("step"), number("loss"), "best", number("time")}};
  for (const ListedRun& run : runs)
    table.rows.push_back({run.path, run.state + (run.note.empty() ? "" : ": " + run.note), step_text(run),
                          number_text(run.loss), best_text(run),
                          std::isfinite(run.seconds) ? std::string(readable_seconds(run.seconds)) : "-"});
  return table;
}

// Keys in the order of the first run that has each.
std::vector<std::string> differing_keys(const std::vector<ListedRun>& runs) {
  std::vector<std::string> keys;
  for (const ListedRun& run : runs) {
    for (const NamedText& setting : run.settings) {
      if (std::find(keys.begin(), keys.end(), setting.name) == keys.end()) keys.push_back(setting.name);
    }
  }
  return keys;
}

// A row for each key: runs are fewer than settings.
std::string settings_table(const std::vector<ListedRun>& runs) {
  Table table{"Settings that differ", {"key"}};
  for (const ListedRun& run : runs) table.columns.push_back({run.path, ColumnKind::kHtml});
  for (const std::string& key : differing_keys(runs)) {
    table.rows.push_back({key});
    for (const ListedRun& run : runs) {
      const std::string value = setting_of(run, key);
      table.rows.back().push_back(value.empty() ? "not set" : "<code>" + html_escape(value) + "</code>");
    }
  }
  return html_of(table);
}

struct TrainingFigure {
  const char *key, *title;
};
// In the order of the report; evaluations stand behind the loss.
constexpr TrainingFigure kTrainingFigures[] = {{"loss", kLossTitle},
                                               {"learning_rate", kLearningRateTitle},
                                               {"grad_norm", kGradientNormTitle},
                                               {"samples_per_second", kSamplesTitle}};

// With zeros in front of numbers: "recall_at_5" comes before "recall_at_10".
std::string sorting_key(const std::string& figure) {
  constexpr std::size_t kDigits = 6;
  std::string key;
  for (std::size_t i = 0; i < figure.size();) {
    const std::size_t end = std::min(figure.find_first_not_of("0123456789", i), figure.size());
    if (end > i) key += std::string(kDigits - std::min(end - i, kDigits), '0') + figure.substr(i, end - i);
    if (end < figure.size()) key += figure[end];
    i = end + 1;
  }
  return key;
}

// The figures of all runs: the loss, evaluations, and then how training went.
std::vector<std::string> figures_of(const std::vector<ListedRun>& runs) {
  std::vector<std::string> figures;
  for (const ListedRun& run : runs) {
    for (const RunCurve& curve : run.curves) {
      if (std::find(figures.begin(), figures.end(), curve.figure) == figures.end()) figures.push_back(curve.figure);
    }
  }
  const auto place = [](const std::string& figure) {
    if (figure == "eval_loss") return 1;
    for (int i = 0; i < 4; ++i) {
      if (figure == kTrainingFigures[i].key) return i == 0 ? 0 : 2 + i;
    }
    return 2;
  };
  std::sort(figures.begin(), figures.end(), [&](const std::string& a, const std::string& b) {
    return place(a) != place(b) ? place(a) < place(b) : sorting_key(a) < sorting_key(b);
  });
  return figures;
}

std::string title_of(const std::string& figure) {
  for (const TrainingFigure& known : kTrainingFigures) {
    if (figure == known.key) return known.title;
  }
  std::string title = figure;
  std::replace(title.begin(), title.end(), '_', ' ');
  return title.rfind("eval ", 0) == 0 ? "Validation: " + title.substr(5) : title;
}

std::string chart_of(const std::string& figure, const std::vector<ListedRun>& runs) {
  constexpr std::size_t kMostSmooth = 3;  // a pale line and its mean for each
  ChartOptions options;
  options.title = title_of(figure);
  std::vector<ChartSeries> lines;
  const std::size_t with_curves = static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const ListedRun& run) { return !run.curves.empty(); }));
  for (const ListedRun& run : runs) {
    if (run.curves.empty()) continue;
    ChartSeries line{run.path, {}, with_curves <= kMostSmooth && figure == "loss", figure.rfind("eval_", 0) == 0};
    for (const RunCurve& curve : run.curves) {
      if (curve.figure == figure) line.points = curve.points;
    }
    options.x_high = std::max(options.x_high, line.points.empty() ? 0.0 : line.points.back().x);
    lines.push_back(std::move(line));  // without points too: a run has one colour in all charts
  }
  return line_chart(options, lines);
}

std::string charts_of(const std::vector<ListedRun>& runs) {
  std::string charts;
  for (const std::string& figure : figures_of(runs)) charts += chart_of(figure, runs);
  return charts.empty() ? "" : "<div class=\"charts\">\n" + charts + "</div>\n";
}

// As a shell takes it for one word.
std::string shell_word(const std::string& text) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=.,:/@%+-";
  if (text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

std::string setting_of(const ListedRun& run, std::string_view key) {
  const auto found = std::find_if(run.settings.begin(), run.settings.end(),
                                  [&](const NamedText& setting) { return setting.name == key; });
  return found == run.settings.end() ? "" : found->value;
}

std::string runs_text(const std::vector<ListedRun>& runs) {
  const std::string lines = text_of(runs_table(runs));
  std::size_t end = lines.find('\n') + 1;
  std::string text = lines.substr(0, end);
  for (const ListedRun& run : runs) {
    const std::size_t begin = end;
    end = lines.find('\n', begin) + 1;
    text += lines.substr(begin, end - begin);
    for (const NamedText& setting : run.settings)
      text += "    " + shell_word(printable_line(setting.name + "=" + setting.value)) + "\n";
  }
  return text;
}

std::string runs_html(const std::string& title, const std::vector<ListedRun>& runs) {
  HtmlPage page;
  page.product = "Bascule runs";
  page.title = title;
  page.note = utc_now("%Y-%m-%d %H:%M UTC");
  page.subtitle = count_of(runs.size(), "run");
  page.sections = {{"Runs", html_of(runs_table(runs))},
                   {"Curves", charts_of(runs), false},
                   {"Settings that differ", settings_table(runs)}};
  return html_page(page);
}

}  // namespace bascule
