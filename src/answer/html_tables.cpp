// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/base/messages.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

// Colours of the style sheet for parts of a whole.
constexpr std::size_t kColours = 8;
std::string colour_class(std::size_t index) { return "c" + std::to_string(index % kColours + 1); }

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
    const std::string percent = readable_percent(parts[i].share).c_str();
    out += "<span class=\"" + colour_class(i) + "\" style=\"flex-grow:" + html_number(parts[i].share * 1000.0) +
           "\" title=\"" + html_escape(parts[i].name) + ": " + parts[i].value + ", " + percent + "\">" +
           (parts[i].share >= 0.07 ? "<b>" + html_escape(parts[i].name) + "</b>" : std::string()) + "</span>";
  }
  return out + "</div>\n";
}

std::string parts_table(const std::vector<Part>& parts, const char* name_head, const char* value_head) {
  const bool has_notes = std::any_of(parts.begin(), parts.end(), [](const Part& part) { return !part.note.empty(); });
  std::string body;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    body += "<tr><th scope=\"row\"><i class=\"dot " + colour_class(i) + "\"></i>" + html_escape(parts[i].name) +
            "</th>" + number_cell(parts[i].value) + number_cell(readable_percent(parts[i].share).c_str()) +
            (has_notes ? "<td class=\"note\">" + html_escape(parts[i].note) + "</td>" : "") + "</tr>\n";
  }
  return wide_table(
      name_head,
      text_head(name_head) + number_head(value_head) + number_head("share") + (has_notes ? text_head("note") : ""),
      body);
}

std::string pairs_table(const std::vector<NamedText>& rows) {
  std::string out = "<table class=\"pairs\"><tbody>\n";
  for (const NamedText& row : rows) {
    out += "<tr><th scope=\"row\">" + html_escape(row.name) + "</th><td>" + html_escape(row.value) + "</td></tr>\n";
  }
  return out + "</tbody></table>\n";
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
  std::string body;
  for (const OperationTime& operation : operations) {
    const bool counted = operation.gflops_per_second > 0.0;
    body += "<tr><th scope=\"row\">" + html_escape(operation.name) + "</th>" +
            number_cell(readable_count(operation.calls).c_str()) +
            number_cell(readable_seconds(operation.seconds).c_str()) +
            number_cell(readable_percent(operation.seconds / total).c_str()) +
            "<td class=\"bar\"><span style=\"width:" + html_number(100.0 * operation.seconds / longest) +
            "%\"></span></td>" + number_cell(counted ? gflops_text(operation.gflops_per_second) : std::string("–")) +
            "</tr>\n";
  }
  return "<h3>By operation</h3>" +
         wide_table("By operation",
                    text_head("operation") + number_head("calls") + number_head("time") + number_head("share") +
                        "<td class=\"bar-head\"></td>" + number_head("GFLOP/s"),
                    body);
}

}  // namespace

std::string memory_section(const Report& report) {
  std::uint64_t sum = 0;
  for (const MemoryCategory& category : report.memory) sum += category.bytes;
  if (sum == 0) return "";
  std::vector<Part> parts;
  for (const MemoryCategory& category : report.memory) {
    parts.push_back({category.name, static_cast<double>(category.bytes) / static_cast<double>(sum),
                     readable_bytes(category.bytes).c_str(), category.note});
  }
  std::string line =
      std::string("Planned before the first step: <b>") + readable_bytes(report.planned_bytes).c_str() + "</b>";
  if (report.resident_bytes != 0) {
    line += std::string("; resident: <b>") + readable_bytes(report.resident_bytes).c_str() + "</b>";
  }
  if (report.lower_bound_bytes != 0) {
    line +=
        std::string("; lower bound for any placement: <b>") + readable_bytes(report.lower_bound_bytes).c_str() + "</b>";
  }
  if (report.machine_bytes != 0) {
    line += std::string("; this machine has <b>") + readable_bytes(report.machine_bytes).c_str() + "</b>";
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
      parts.push_back({name, seconds / totals.wall_seconds, readable_seconds(seconds / steps).c_str(), ""});
    };
    for (int phase = 0; phase < kStepPhases; ++phase) {
      add(step_phase_name(static_cast<StepPhase>(phase)), totals.seconds[phase]);
      rest -= totals.seconds[phase];
    }
    add("other", std::max(rest, 0.0));
    out += std::string("<p class=\"lead\">A step takes <b>") + readable_seconds(totals.wall_seconds / steps).c_str() +
           "</b> on average over " + readable_count(totals.steps).c_str() + " " + noun_for(totals.steps, "step") +
           ". Evaluation took " + readable_seconds(report.train.evaluation_seconds).c_str() + " and saving " +
           readable_seconds(report.train.save_seconds).c_str() + " in total, not included.</p>\n" + stacked_bar(parts) +
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
    out += "<div class=\"group\"><h3>[" + html_escape(table) + "]</h3>" + pairs_table(rows) + "</div>\n";
  }
  return out + "</div>\n";
}

std::string provenance_section(const Report& report) {
  return report.provenance.empty() ? "" : pairs_table(report.provenance);
}

std::string facts_section(const FactTable& facts) {
  if (facts.rows.empty()) return "";
  const std::string note = facts.note.empty() ? "" : "<p class=\"lead\">" + html_escape(facts.note) + "</p>\n";
  return note + pairs_table(facts.rows);
}

}  // namespace bascule
