// SPDX-License-Identifier: Apache-2.0
// Tables of the report's pages. Finish phase.
#pragma once

#include <cstddef>
#include <string>

namespace bascule {

// Cells of a head: `name` is plain text. Numbers are aligned to the right.
std::string text_head(const std::string& name);
std::string number_head(const std::string& name);
// A cell of the body: `value` is HTML.
std::string number_cell(const std::string& value);

// A share as a number: 0.25 is "25 %".
std::string percent(double share);

// Tables with more rows are tall ones.
inline constexpr std::size_t kMostRowsInSight = 12;

// A whole table. It scrolls sideways in a box of its own where the window is narrow, and down where it is tall; the box
// takes the focus, so that the arrow keys scroll it too. label: plain text, read aloud for the box; head: cells;
// body: rows.
std::string wide_table(const std::string& label, const std::string& head, const std::string& body, bool tall = false);

}  // namespace bascule
