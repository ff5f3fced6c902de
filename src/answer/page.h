// SPDX-License-Identifier: Apache-2.0
// Pages: the frame that each has, tables and lists of named texts (for a terminal too), charts. Allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/readable.h"

namespace bascule {

// For element content and for attribute values in double quotes: & < > " ' are escaped; bytes that are not UTF-8 and
// control characters become U+FFFD (line breaks and tabs a space).
std::string html_escape(const std::string& text);

std::string base64(const std::vector<std::uint8_t>& bytes);
// A picture file inside the page: "data:image/png;base64,...".
std::string picture_url(const std::vector<std::uint8_t>& file);

// A coordinate or width with at most two decimals and no trailing zeros: "12.5".
std::string html_number(double value);
// A cosine with three decimals: "0.712".
std::string score_text(double score);

struct HtmlSection {
  std::string title, body;         // the title is plain text, the body HTML; without a body the section is left out
  bool is_card = true;             // in a frame; false: parts of the body have frames of their own
  std::string id = "", link = "";  // link: the short name in the bar of links, which fits into one line; "": not there
};

// One page, in one file that loads nothing: its policy makes the browser enforce that.
struct HtmlPage {
  std::string product, title, note;     // plain text: "Bascule doctor", "demo.toml"; the note stands behind the product
  std::string generator;                // "bascule doctor", for pages that a command knows as its own; "": not named
  std::string style;                    // behind html_style()
  std::string picture, subtitle, lead;  // HTML: beside the title; below it; above the sections
  std::vector<HtmlSection> sections;
  std::string footer = "This page is one file and loads nothing from the network.";
};

std::string html_page(const HtmlPage& page);
// The first bytes of a page with this generator.
std::string html_begin(const std::string& generator);

// The style sheet of every page, without its <style> tags.
const char* html_style();

// Tables.

enum class ColumnKind {
  kText,
  kNumber,  // aligned to the right
  kProse,   // text in any language
  kNote,    // small print
  kBar,     // a bar as long as a share, 0..1, says
  kHtml     // HTML; only on pages
};

struct Column {
  Column(const char* column_name) : name(column_name) {}
  Column(std::string column_name, ColumnKind column_kind = ColumnKind::kText)
      : name(std::move(column_name)), kind(column_kind) {}
  std::string name;
  ColumnKind kind = ColumnKind::kText;
};
inline Column number(const std::string& name) { return {name, ColumnKind::kNumber}; }

struct Cell {
  Cell(const char* cell_text) : text(cell_text) {}
  Cell(std::string cell_text, bool best = false) : text(std::move(cell_text)), is_best(best) {}
  Cell(const ShortText& cell_text) : text(cell_text) {}
  std::string text;
  bool is_best = false;  // in bold on a page
};
// A cell of a column of bars.
Cell bar_cell(double share);

// The first column names the row, unless it is prose.
struct Table {
  std::string name;  // read aloud for the table on a page, and its heading where it has one
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows = {};
  bool has_colours = false;  // each row begins with the colour of its part of a whole: colour_class()
};

// Columns are as wide as their widest cell. without_head: no line with their names; the lines begin with two spaces.
std::string text_of(const Table& table, bool without_head = false);
std::string text_of(const std::vector<NamedText>& pairs);

// The table scrolls sideways in a box of its own where the window is narrow, and down where it has many rows; the box
// takes the focus, so that the arrow keys scroll it too. "" for a table without rows.
std::string html_of(const Table& table);
std::string html_with_heading(const Table& table);
std::string html_of(const std::vector<NamedText>& pairs);
// Keys of settings, those of a table one after another.
std::string settings_html(const std::vector<NamedText>& settings);

// A class of the style sheet: the colour of a part of a whole.
std::string colour_class(std::size_t part);

// One kind of operation: its time and work in a tape's replays.
struct OperationTime {
  std::string name;  // "linear_backward"
  std::int64_t calls = 0;
  double seconds = 0.0;
  double flops = 0.0, bytes = 0.0;
  double limit_seconds = 0.0;  // at the limits of the machine; 0: not measured

  double gflops_per_second() const { return seconds > 0.0 ? flops * 1e-9 / seconds : 0.0; }  // 0: not counted
};
// operations: the longest first.
Table operations_table(const std::vector<OperationTime>& operations);

// Line charts as inline SVG: axes with round ticks, a line per series, and a reading that appears where the pointer is,
// made with style sheets alone (no script). Lines differ in colour, dashes and the shape of their marks, which come
// from the page's style sheet. Finish phase.

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;  // not finite: a gap
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // x ascending
  bool smooth = false;             // draw the points pale and a running mean over them
  bool marks = false;              // a few points, each with a mark: evaluations
};

struct ChartOptions {
  std::string title;
  std::string x_name = "step";
  // The horizontal axis covers this range and the points; empty where the points alone decide.
  double x_low = 0.0;
  double x_high = 0.0;
  std::string unit = "";   // behind every value, as "%" or "ms"; may be empty
  bool from_zero = false;  // the vertical axis begins at 0
  bool fill = false;       // tint the area under the first series
};

// A <figure> element; its caption has the last value of each series. Points beyond what a chart can show are thinned
// (extremes of each stretch are kept).
// "" if no series has a point.
std::string line_chart(const ChartOptions& options, const std::vector<ChartSeries>& series);

// Round tick values covering [low, high]; between 3 and 8 of them; at least two even if low == high.
std::vector<double> nice_ticks(double low, double high);

// Titles of the charts that the report of a run and the page of several runs have in common.

inline constexpr char kLossTitle[] = "Loss";
inline constexpr char kLearningRateTitle[] = "Learning rate";
inline constexpr char kGradientNormTitle[] = "Gradient norm";
inline constexpr char kSamplesTitle[] = "Samples/s";

}  // namespace bascule
