// SPDX-License-Identifier: Apache-2.0
// Tables and lists of named texts: said once, shown on a page and in a terminal. Allocates.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/logs/readable.h"

namespace bascule {

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

// A class of the style sheet: the colour of a part of a whole.
std::string colour_class(std::size_t part);

}  // namespace bascule
