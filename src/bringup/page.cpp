// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "src/answer/html_text.h"
#include "src/base/messages.h"
#include "src/bringup/causes.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

std::string machine_line(const BringUp& run) {
  const Machine& machine = run.machine;
  return formatted("%s, microcode %s, %lld cores (%s), hypervisor: %s, Linux %s", known(machine.processor.name).c_str(),
                   known(machine.processor.microcode).c_str(), static_cast<long long>(run.cores), run.isa.c_str(),
                   known(machine.processor.hypervisor).c_str(), known(machine.kernel.release).c_str());
}

std::string number_text(double number) {
  return number < 1000.0 ? formatted("%.4g", number) : readable_count(std::llround(number)).c_str();
}

// The cells of a figure's row.
std::vector<std::string> cells_of(const Figure& figure, const FigureJudgement* judgement) {
  std::vector<std::string> cells = {figure.item, figure.name, figure.place};
  cells.push_back(number_text(figure.median()) + " " + figure.unit);
  const auto [least, most] = std::minmax({figure.best(), figure.worst()});
  cells.push_back(number_text(least) + " to " + number_text(most));
  cells.push_back(figure.limit > 0.0 ? formatted("%.0f %%", 100.0 * figure.median() / figure.limit) : "");
  cells.push_back(formatted("%.0f %%", 100.0 * figure.taken.share()));
  if (judgement != nullptr) {
    const bool is_known = judgement->verdict != Verdict::kUnknown;
    cells.push_back(std::string(verdict_name(judgement->verdict)) +
                    (is_known ? formatted(" %+.0f %%", 100.0 * judgement->change) : ""));
  }
  return cells;
}

bool is_number(std::size_t column) { return column >= 3 && column <= 6; }

std::vector<std::string> headings(bool judged) {
  std::vector<std::string> names = {"item", "figure", "where", "median", "range", "of limit", "taken"};
  if (judged) names.emplace_back("against the profile");
  return names;
}

std::string bits_line(const BitsResult& bits, std::int64_t cores) {
  if (bits.passes == 0) return "";
  if (bits.wrong.empty() && !bits.none_as_recorded)
    return formatted("bits: as recorded; cores: %lld, passes: %lld (%.1f s)", static_cast<long long>(cores),
                     static_cast<long long>(bits.passes), bits.seconds);
  std::string lines;
  for (const WrongCore& core : bits.wrong)
    lines += formatted("%sbits: core %d computes wrong bits: %s; in %lld of %lld passes", lines.empty() ? "" : "\n",
                       core.core, core.problem.c_str(), static_cast<long long>(core.passes),
                       static_cast<long long>(bits.passes));
  if (bits.none_as_recorded)
    lines += std::string(lines.empty() ? "" : "\n") + "bits: no core computes the recorded bits";
  return lines;
}

// Each cause once, with the figures that it explains.
struct Explained {
  std::string cause, evidence, remedy;
  std::vector<std::string> figures;
};

std::string label_of(const Figure& figure) {
  return figure.item + " " + figure.name + (figure.place.empty() ? "" : " (" + figure.place + ")");
}

std::vector<Explained> explanations(const BringUp& run, const std::vector<FigureJudgement>& judgements) {
  std::vector<Explained> list;
  const auto add = [&](const Cause& cause, const Figure& figure) {
    const auto known_cause =
        std::find_if(list.begin(), list.end(), [&](const Explained& one) { return one.cause == cause.name; });
    if (known_cause != list.end()) {
      known_cause->figures.push_back(label_of(figure));
    } else {
      list.push_back({cause.name, cause.evidence, cause.remedy, {label_of(figure)}});
    }
  };
  for (std::size_t i = 0; i < run.figures.size(); ++i) {
    if (judgements.empty()) {
      for (const Cause& cause : causes_of(run.figures[i], run, nullptr, nullptr)) add(cause, run.figures[i]);
      continue;
    }
    const bool is_worse = judgements[i].verdict == Verdict::kSlower || judgements[i].verdict == Verdict::kDisturbed;
    for (const Cause& cause : judgements[i].causes) add(cause, run.figures[i]);
    if (is_worse && judgements[i].causes.empty())
      add({"unknown", "nothing that was measured explains it", ""}, run.figures[i]);
  }
  return list;
}

std::string figures_text(const std::vector<std::string>& figures) {
  constexpr std::size_t kMost = 3;
  std::string line;
  for (std::size_t i = 0; i < std::min(kMost, figures.size()); ++i) line += (i > 0 ? ", " : "") + figures[i];
  if (figures.size() > kMost) line += " and " + std::to_string(figures.size() - kMost) + " more";
  return line;
}

}  // namespace

std::string bring_up_text(const BringUp& run, const std::vector<FigureJudgement>& judgements) {
  std::vector<std::vector<std::string>> rows = {headings(!judgements.empty())};
  for (std::size_t i = 0; i < run.figures.size(); ++i)
    rows.push_back(cells_of(run.figures[i], judgements.empty() ? nullptr : &judgements[i]));
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out = machine_line(run) + "\n\n";
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      line += (c > 0 ? "  " : "") + (is_number(c) ? space + row[c] : row[c] + space);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  const std::string bits = bits_line(run.bits, run.cores);
  if (!bits.empty()) out += "\n" + bits + "\n";
  for (const Explained& one : explanations(run, judgements)) {
    out += "\ncause " + one.cause + ": " + one.evidence + "\n  of: " + figures_text(one.figures) + "\n";
    if (!one.remedy.empty()) out += "  remedy: " + one.remedy + "\n";
  }
  return out + formatted("\n%.1f s\n", run.seconds);
}

std::string bring_up_html(const BringUp& run, const std::vector<FigureJudgement>& judgements) {
  HtmlPage page;
  page.title = "Bring-up";
  page.header = "<header class=\"inner\"><div class=\"brand\">Bascule bring-up · " + html_escape(run.started) +
                " UTC</div>\n<h1>" + html_escape(known(run.machine.processor.name)) + "</h1>\n<p class=\"sub\">" +
                html_escape(machine_line(run)) + "</p>\n</header>\n";
  std::string& out = page.main;
  const std::string bits = bits_line(run.bits, run.cores);
  if (!bits.empty())
    out += "<section><div class=\"card\"><p class=\"lead\">" + html_escape(bits) + "</p></div></section>\n";
  const std::vector<Explained> causes = explanations(run, judgements);
  if (!causes.empty()) out += "<section><h2>Causes</h2>\n<div class=\"card\"><table class=\"pairs\">\n";
  for (const Explained& one : causes) {
    out += "<tr><th scope=\"row\">" + html_escape(one.cause) + "</th><td>" + html_escape(one.evidence) + "<br>" +
           html_escape("of: " + figures_text(one.figures)) +
           (one.remedy.empty() ? "" : "<br>" + html_escape("remedy: " + one.remedy)) + "</td></tr>\n";
  }
  if (!causes.empty()) out += "</table></div></section>\n";
  const std::vector<std::string> names = headings(!judgements.empty());
  std::string head, body;
  for (std::size_t c = 0; c < names.size(); ++c) head += is_number(c) ? number_head(names[c]) : text_head(names[c]);
  for (std::size_t i = 0; i < run.figures.size(); ++i) {
    const std::vector<std::string> cells = cells_of(run.figures[i], judgements.empty() ? nullptr : &judgements[i]);
    body += "<tr><th scope=\"row\">" + html_escape(cells[0]) + "</th>";
    for (std::size_t c = 1; c < cells.size(); ++c)
      body += is_number(c) ? number_cell(html_escape(cells[c])) : "<td>" + html_escape(cells[c]) + "</td>";
    body += "</tr>\n";
  }
  out += "<section><h2>Figures</h2>\n<div class=\"card\">" + wide_table("Figures", head, body) + "</div></section>\n";
  return html_page(page);
}

}  // namespace bascule
