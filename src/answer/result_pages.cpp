// SPDX-License-Identifier: Apache-2.0
#include "src/answer/result_pages.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

// Beside the report's own style: a grid of pictures.
constexpr const char* kDrawStyle = R"css(
.drawn{list-style:none;margin:0;padding:0;display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(160px,100%),1fr))}
.drawn li{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px;min-width:0;break-inside:avoid}
.drawn img{display:block;width:100%;object-fit:fill}
.drawn p{margin:6px 0 0;font-size:13.5px}.drawn code{font-size:11.5px;color:var(--soft)}
)css";

constexpr std::size_t kPromptBytes = 400;  // that are shown; a model reads about as many

std::string shown(const std::string& prompt) {
  if (prompt.size() <= kPromptBytes) return html_escape(prompt);
  return html_escape(prompt.substr(0, utf8_cut(prompt, kPromptBytes))) + "…";
}

std::string operations_section(const std::vector<OperationTime>& operations) {
  if (operations.empty()) return "";
  const Table table = operations_table(operations);
  const bool has_limits = table.columns.back().name == "of its limit";
  return "<div class=\"card\">" + html_of(table) + "</div>\n" +
         (has_limits
              ? "<p class=\"sub\">Limit: arithmetic as fast as matrix products, memory as fast as a copy outside "
                "the caches, measured before the run. An operation on cached data can be faster.</p>\n"
              : "");
}

std::string pictures_list(const DrawPage& page) {
  if (page.pictures.empty()) return "";
  std::string out = "<ol class=\"drawn\">\n";
  for (const PagePicture& picture : page.pictures) {
    const std::string file = html_escape(picture.file), prompt = shown(picture.prompt);
    const std::string image = picture.thumbnail.empty()
                                  ? file
                                  : "<img src=\"" + picture_url(picture.thumbnail) + "\" alt=\"" + prompt +
                                        "\" style=\"aspect-ratio:" + std::to_string(page.width) + "/" +
                                        std::to_string(page.height) + "\">";
    out += "<li><a href=\"" + file + "\">" + image + "</a><p dir=\"auto\">" + prompt + "</p>" +
           (picture.negative.empty() ? "" : "<p class=\"sub\" dir=\"auto\">not: " + shown(picture.negative) + "</p>") +
           "<code>" + html_escape(picture.file + ", " + picture.facts) + "</code></li>\n";
  }
  out += "</ol>\n";
  const std::size_t more = page.all_pictures - page.pictures.size();
  if (more > 0)
    out += "<p class=\"sub\">" + readable_count(static_cast<std::int64_t>(more)) +
           " more lie in the folder of this page.</p>\n";
  return out;
}

// Beside the report's own style: a grid of cards, a picture each.
constexpr const char* kSearchStyle = R"css(
.asked{display:flex;gap:20px;align-items:center;margin-top:10px}.asked img{flex:none;max-width:160px;max-height:160px;border-radius:8px}
.asked h1{margin:0;min-width:0}
.found{list-style:none;margin:0;padding:0;display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(165px,100%),1fr))}
.found li{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px;min-width:0;break-inside:avoid}
.found.texts{grid-template-columns:1fr}.found.texts p{font-size:15px;white-space:pre-line}
.found .picture{margin-bottom:8px;overflow:hidden}
.found img{display:block;width:100%;height:100%;object-fit:contain}
.found .right{border-color:var(--good)}
.found b{font-size:15px}.found p{margin:2px 0 0;font-size:13.5px;font-weight:400;color:var(--ink)}
.found code{display:block;font-size:11.5px;color:var(--soft);overflow-wrap:anywhere;margin-top:4px}
)css";

// "300 pictures of validation"
std::string searched_text(const SearchAnswer& answer) {
  return readable_count(static_cast<std::int64_t>(answer.candidates)) +
         (answer.of_texts       ? " texts of "
          : answer.from_picture ? " captions of "
                                : " pictures of ") +
         answer.searched;
}

std::string image(const std::vector<std::uint8_t>& file, const std::string& name) {
  if (file.empty()) return "";
  return "<img src=\"" + picture_url(file) + "\" alt=\"" + html_escape(name) + "\">";
}

// file: of the picture; null where it is a text.
std::string card(const SearchHit& hit, const std::vector<std::uint8_t>* file) {
  std::string out = hit.right ? "<li class=\"right\">" : "<li>";
  if (file != nullptr)
    out += "<div class=\"picture\">" + image(*file, hit.caption.empty() ? hit.path : hit.caption) + "</div>";
  out += "<b>" + score_text(hit.score) + (hit.right ? " ✓" : "") + "</b>";
  if (!hit.caption.empty()) out += "<p dir=\"auto\">" + html_escape(hit.caption) + "</p>";
  return out + "<code>" + html_escape(hit.path) + "</code></li>\n";
}

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

std::string draw_html(const DrawPage& drawn) {
  HtmlPage page;
  page.product = "Bascule drawing report";
  page.title = drawn.title;
  page.style = kDrawStyle;
  page.sections = {{"Figures", html_of(drawn.figures)},
                   {"Pictures", pictures_list(drawn), false},
                   {"Time of the UNet's calls by operation", operations_section(drawn.operations), false},
                   {"Settings", settings_html(drawn.settings)}};
  page.footer = "The pictures lie beside this page, which holds small copies and loads nothing.";
  return html_page(page);
}

std::string search_text(const SearchAnswer& answer) {
  const std::string query = answer.from_picture ? answer.query : "\"" + answer.query + "\"";
  std::string out = printable_line(query + ": the nearest of " + searched_text(answer)) + "\n";
  for (std::size_t i = 0; i < answer.hits.size(); ++i) {
    const SearchHit& hit = answer.hits[i];
    const std::string path = shown_path(hit.path);
    const bool are_texts = answer.from_picture || answer.of_texts;
    const std::string& first = are_texts ? hit.caption : path;
    const std::string& second = are_texts ? path : hit.caption;
    out += formatted("%4zu %7s %s ", i + 1, score_text(hit.score).c_str(), hit.right ? "*" : " ") +
           printable_line(second.empty() ? first : first + "  (" + second + ")") + "\n";
  }
  return out;
}

std::string search_html(const SearchAnswer& answer, const SearchPictures& pictures) {
  const std::size_t folder_end = answer.from_picture ? answer.query.rfind('/') + 1 : 0;  // npos + 1 is 0
  HtmlPage page;
  page.product = "Bascule search";
  page.title = answer.query.substr(folder_end);
  page.note = answer.model;
  page.style = map_style(answer.map) + kSearchStyle;
  page.picture = image(pictures.query, answer.query);
  page.subtitle = "the nearest " + readable_count(static_cast<std::int64_t>(answer.hits.size())) + " of " +
                  html_escape(searched_text(answer)) +
                  (answer.of_texts ? "" : ", with their cosine similarities; ✓ marks known matches");
  std::string found;
  for (std::size_t i = 0; i < answer.hits.size(); ++i)
    found += card(answer.hits[i], answer.of_texts ? nullptr : &pictures.hits[i]);
  std::vector<NamedText> refused;
  for (const RefusedPicture& picture : answer.refused) refused.push_back({picture.path, picture.reason});
  page.sections = {
      {"", std::string("<ol class=\"found") + (answer.of_texts ? " texts" : "") + "\">\n" + found + "</ol>", false},
      {"Map of the embeddings", embedding_map_section(answer.map)},
      {"Skipped", html_of(refused)}};
  return html_page(page);
}

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
