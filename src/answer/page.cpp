// SPDX-License-Identifier: Apache-2.0
#include "src/answer/page.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "src/base/base64.h"
#include "src/base/error.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

// A bridge with its leaf half raised.
constexpr const char* kLogo =
    "<svg viewBox=\"0 0 34 26\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.4\" stroke-linecap=\"round\" "
    "aria-hidden=\"true\"><path d=\"M1 21h8M27 21h6M6 21V9M6 20L25 6M2.5 9h7\"/>"
    "<path d=\"M1 25c3-2 5-2 8 0s5 2 8 0 5-2 8 0 5 2 8 0\" stroke-width=\"1.4\" opacity=\".5\"/></svg>";

constexpr const char* kReplacement = "\xef\xbf\xbd";

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

std::string html_escape(const std::string& text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_bytes_at(text, at);
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (length > 1) {
      out.append(text, at, length);
    } else if (length == 0 || c == 0x7f || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) {
      out += kReplacement;
    } else {
      switch (c) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&#39;"; break;
        case '\n':
        case '\r':
        case '\t': out += ' '; break;
        default: out += text[at];
      }
    }
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string base64(const std::vector<std::uint8_t>& bytes) {
  std::string out(base64_characters(bytes.size()), '\0');
  const void* const begin = bytes.data();
  write_base64({static_cast<const std::byte*>(begin), bytes.size()}, out.data());
  return out;
}

std::string picture_url(const std::vector<std::uint8_t>& file) {
  const bool is_png = file.size() > 1 && file[0] == 0x89 && file[1] == 'P';
  const bool is_webp = file.size() > 1 && file[0] == 'R' && file[1] == 'I';
  return std::string("data:image/") + (is_png ? "png" : is_webp ? "webp" : "jpeg") + ";base64," + base64(file);
}

std::string html_number(double value) {
  if (!std::isfinite(value)) return "0";
  std::string out = formatted("%.2f", value);
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string score_text(double score) { return formatted("%.3f", score); }

std::string html_begin(const std::string& generator) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
         (generator.empty() ? "" : "<meta name=\"generator\" content=\"" + generator + "\">\n");
}

std::string html_page(const HtmlPage& page) {
  std::string links, sections;
  for (const HtmlSection& section : page.sections) {
    if (section.body.empty()) continue;
    if (!section.link.empty()) links += "<a href=\"#" + section.id + "\">" + section.link + "</a>";
    sections += "<section" + (section.id.empty() ? "" : " id=\"" + section.id + "\"") + ">" +
                (section.title.empty() ? "" : "<h2>" + html_escape(section.title) + "</h2>\n") +
                (section.is_card ? "<div class=\"card\">\n" + section.body + "</div>\n" : section.body) +
                "</section>\n";
  }
  const std::string title = html_escape(page.title), heading = "<h1 dir=\"auto\">" + title + "</h1>";
  return html_begin(page.generator) +
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
         "'unsafe-inline'\">\n<title>" +
         title + " · " + page.product + "</title>\n<style>" + html_style() + page.style +
         "</style>\n</head>\n<body>\n<header class=\"inner\"><div class=\"brand\">" + kLogo + page.product +
         (page.note.empty() ? "" : " · " + html_escape(page.note)) + "</div>\n" +
         (page.picture.empty() ? heading : "<div class=\"asked\">" + page.picture + heading + "</div>") + "\n" +
         (page.subtitle.empty() ? "" : "<p class=\"sub\">" + page.subtitle + "</p>\n") + page.lead + "</header>\n" +
         (links.empty() ? "" : "<nav aria-label=\"Sections\"><div class=\"inner\">" + links + "</div></nav>\n") +
         "<main>\n" + sections + "</main>\n<footer class=\"inner\">Written by Bascule. " + page.footer +
         "</footer>\n</body>\n</html>\n";
}

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
  for (const NamedText& pair : pairs) {
    std::string name = html_escape(pair.name);  // a long key breaks behind an underscore, not within a word
    for (std::size_t at = 0; (at = name.find('_', at)) != std::string::npos;) name.insert(++at, "<wbr>");
    out += "<tr><th scope=\"row\">" + name + "</th><td>" + html_escape(pair.value) + "</td></tr>\n";
  }
  return pairs.empty() ? "" : out + "</tbody></table>\n";
}

std::string settings_html(const std::vector<NamedText>& settings) {
  if (settings.empty()) return "";
  std::string out = "<div class=\"columns\">\n";
  std::size_t at = 0;
  while (at < settings.size()) {
    const std::string table = settings[at].name.substr(0, settings[at].name.find('.'));
    std::vector<NamedText> rows;
    for (; at < settings.size(); ++at) {
      const std::string& name = settings[at].name;
      const std::size_t dot = name.find('.');
      if (name.substr(0, dot) != table) break;
      rows.push_back({dot == std::string::npos ? name : name.substr(dot + 1), settings[at].value});
    }
    out += "<div class=\"group\"><h3>[" + html_escape(table) + "]</h3>" + html_of(rows) + "</div>\n";
  }
  return out + "</div>\n";
}

Table operations_table(const std::vector<OperationTime>& operations) {
  double all = 0.0;
  bool has_limits = false;
  for (const OperationTime& one : operations) {
    all += one.seconds;
    has_limits = has_limits || one.limit_seconds > 0.0;
  }
  Table table{
      "By operation",
      {"operation", number("calls"), number("time"), number("share"), {"", ColumnKind::kBar}, number("GFLOP/s")}};
  if (all <= 0.0) return table;
  if (has_limits) table.columns.push_back(number("of its limit"));
  for (const OperationTime& one : operations) {
    const double rate = one.gflops_per_second();
    table.rows.push_back({one.name, readable_count(one.calls), readable_seconds(one.seconds),
                          readable_percent(one.seconds / all), bar_cell(one.seconds / operations.front().seconds),
                          rate <= 0.0   ? "–"
                          : rate < 10.0 ? formatted("%.2g", rate)
                                        : readable_count(std::llround(rate)).c_str()});
    if (has_limits)
      table.rows.back().push_back(one.seconds > 0.0 ? readable_percent(one.limit_seconds / one.seconds).c_str() : "");
  }
  return table;
}

std::string colour_class(std::size_t part) { return "c" + std::to_string(part % kColours + 1); }

}  // namespace bascule
