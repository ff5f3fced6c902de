// SPDX-License-Identifier: Apache-2.0
#include "src/answer/table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "src/answer/html_text.h"
#include "src/base/messages.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

constexpr std::size_t kMostRowsInSight = 12;  // of a page
constexpr double kBarCells = 30.0;            // of a terminal
constexpr std::size_t kColours = 8;           // of the style sheet

double share_of_bar(const Cell& cell) { return std::clamp(std::strtod(cell.text.c_str(), nullptr), 0.0, 1.0); }

std::string text_cell(const Cell& cell, ColumnKind kind) {
  if (kind != ColumnKind::kBar) return printable_line(cell.text);
  std::string bar;
  for (long i = std::lround(share_of_bar(cell) * kBarCells); i > 0; --i) bar += "█";
  return bar;
}

std::string html_cell(const Cell& cell, ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kNumber:
      return (cell.is_best ? "<td class=\"n best\">" : "<td class=\"n\">") + html_escape(cell.text) + "</td>";
    case ColumnKind::kProse: return "<td dir=\"auto\">" + html_escape(cell.text) + "</td>";
    case ColumnKind::kNote: return "<td class=\"note\">" + html_escape(cell.text) + "</td>";
    case ColumnKind::kBar:
      return "<td class=\"bar\"><span style=\"width:" + html_number(100.0 * share_of_bar(cell)) + "%\"></span></td>";
    case ColumnKind::kHtml: return "<td>" + cell.text + "</td>";
    case ColumnKind::kText: break;
  }
  return "<td>" + html_escape(cell.text) + "</td>";
}

std::string html_head(const Column& column) {
  if (column.name.empty()) return "<td class=\"bar-head\"></td>";
  const char* const kind = column.kind == ColumnKind::kNumber ? " class=\"n\""
                           : column.kind == ColumnKind::kBar  ? " class=\"bar-head\""
                                                              : "";
  return std::string("<th scope=\"col\"") + kind + ">" + html_escape(column.name) + "</th>";
}

}  // namespace

Cell bar_cell(double share) { return formatted("%.6f", share); }

std::string text_of(const Table& table, bool without_head) {
  std::vector<std::vector<std::string>> lines(without_head ? 0 : 1);
  for (const Column& column : table.columns) {
    if (!without_head) lines[0].push_back(printable_line(column.name));
  }
  for (const std::vector<Cell>& row : table.rows) {
    lines.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c) lines.back().push_back(text_cell(row[c], table.columns[c].kind));
  }
  std::vector<std::size_t> widths(table.columns.size());
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], utf8_characters(line[c]));
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      if (table.columns[c].kind == ColumnKind::kHtml) continue;
      const std::string space(widths[c] - utf8_characters(line[c]), ' ');
      if (c > 0 || without_head) text += "  ";
      text += (table.columns[c].kind == ColumnKind::kNumber ? space + line[c] : line[c] + space);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string text_of(const std::vector<NamedText>& pairs) {
  Table table{"", {"", ""}};
  for (const NamedText& pair : pairs) table.rows.push_back({pair.name, pair.value});
  return text_of(table, true);
}

std::string html_of(const Table& table) {
  if (table.rows.empty()) return "";
  const bool is_tall = table.rows.size() > kMostRowsInSight;
  std::string out = std::string("<div class=\"wide") + (is_tall ? " tall" : "") +
                    "\" tabindex=\"0\" role=\"region\" aria-label=\"" + html_escape(table.name) +
                    "\"><table><thead><tr>";
  for (const Column& column : table.columns) out += html_head(column);
  out += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::vector<Cell>& row = table.rows[r];
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const ColumnKind kind = table.columns[c].kind;
      const bool names_row = c == 0 && kind != ColumnKind::kProse && kind != ColumnKind::kHtml;
      const std::string colour = table.has_colours ? "<i class=\"dot " + colour_class(r) + "\"></i>" : "";
      out += names_row ? "<th scope=\"row\">" + colour + html_escape(row[c].text) + "</th>" : html_cell(row[c], kind);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_with_heading(const Table& table) {
  return table.rows.empty() ? "" : "<h3>" + html_escape(table.name) + "</h3>\n" + html_of(table);
}

std::string html_of(const std::vector<NamedText>& pairs) {
  std::string out = "<table class=\"pairs\"><tbody>\n";
  for (const NamedText& pair : pairs)
    out += "<tr><th scope=\"row\">" + html_escape(pair.name) + "</th><td>" + html_escape(pair.value) + "</td></tr>\n";
  return pairs.empty() ? "" : out + "</tbody></table>\n";
}

std::string colour_class(std::size_t part) { return "c" + std::to_string(part % kColours + 1); }

}  // namespace bascule
