// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/answer/table.h"
#include "src/base/messages.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

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

std::string gflops_text(double value) {
  return value < 10.0 ? readable_number(value).c_str() : readable_count(std::llround(value)).c_str();
}

std::string operations_table(const Report& report) {
  std::vector<OperationTime> operations = report.operations;
  std::stable_sort(operations.begin(), operations.end(),
                   [](const OperationTime& a, const OperationTime& b) { return a.seconds > b.seconds; });
  double total = 0.0;
  for (const OperationTime& operation : operations) total += operation.seconds;
  if (total <= 0.0) return "";
  const double longest = operations.front().seconds;
  Table table{
      "By operation",
      {"operation", number("calls"), number("time"), number("share"), {"", ColumnKind::kBar}, number("GFLOP/s")}};
  for (const OperationTime& operation : operations) {
    const bool counted = operation.gflops_per_second > 0.0;
    table.rows.push_back({operation.name, readable_count(operation.calls), readable_seconds(operation.seconds),
                          readable_percent(operation.seconds / total), bar_cell(operation.seconds / longest),
                          counted ? gflops_text(operation.gflops_per_second) : "–"});
  }
  return html_with_heading(table);
}

}  // namespace

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
  const StepTotals& totals = report.train.totals;
  std::string out;
  if (totals.wall_seconds > 0.0) {
    std::vector<Part> parts;
    double rest = totals.wall_seconds;
    const double steps = static_cast<double>(std::max<std::int64_t>(totals.steps, 1));
    const auto add = [&](const char* name, double seconds) {
      parts.push_back({name, seconds / totals.wall_seconds, readable_seconds(seconds / steps), ""});
    };
    for (int phase = 0; phase < kStepPhases; ++phase) {
      add(step_phase_name(static_cast<StepPhase>(phase)), totals.seconds[phase]);
      rest -= totals.seconds[phase];
    }
    add("other", std::max(rest, 0.0));
    out += std::string("<p class=\"lead\">A step takes <b>") + readable_seconds(totals.wall_seconds / steps) +
           "</b> on average over " + readable_count(totals.steps) + " " + noun_for(totals.steps, "step") +
           ". Evaluation took " + readable_seconds(report.train.evaluation_seconds) + " and saving " +
           readable_seconds(report.train.save_seconds) + " in total, not included.</p>\n" + stacked_bar(parts) +
           parts_table(parts, "part of a step", "time per step");
  }
  return out + operations_table(report);
}

std::string contracts_section(const Report& report) {
  if (report.contracts.empty()) return "";
  std::string out = "<ul class=\"contracts\">\n";
  for (const ContractResult& contract : report.contracts) {
    const char* kind = "unknown";
    const char* word = "not checked";
    if (contract.state == ContractState::kKept) {
      kind = "kept";
      word = "✓ kept";
    } else if (contract.state == ContractState::kBroken) {
      kind = "broken";
      word = "✗ broken";
    }
    out += std::string("<li class=\"") + kind + "\"><b>" + html_escape(contract.name) + "</b><span class=\"pill\">" +
           word + "</span><p>" + html_escape(contract.detail) + "</p></li>\n";
  }
  return out + "</ul>\n";
}

std::string settings_section(const std::vector<NamedText>& settings) {
  if (settings.empty()) return "";
  std::string out = "<div class=\"columns\">\n";
  std::size_t at = 0;
  while (at < settings.size()) {
    const std::string table = settings[at].name.substr(0, settings[at].name.find('.'));
    std::vector<NamedText> rows;
    for (; at < settings.size(); ++at) {
      const std::string& name = settings[at].name;
      if (name.substr(0, name.find('.')) != table) break;
      const std::size_t dot = name.find('.');
      rows.push_back({dot == std::string::npos ? name : name.substr(dot + 1), settings[at].value});
    }
    out += "<div class=\"group\"><h3>[" + html_escape(table) + "]</h3>" + html_of(rows) + "</div>\n";
  }
  return out + "</div>\n";
}

std::string facts_section(const FactTable& facts) {
  if (facts.rows.empty()) return "";
  const std::string note = facts.note.empty() ? "" : "<p class=\"lead\">" + html_escape(facts.note) + "</p>\n";
  return note + html_of(facts.rows);
}

}  // namespace bascule
