// SPDX-License-Identifier: Apache-2.0
// The frame that every page has, its tables, text made safe for HTML, and bytes for data URIs. Allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

// One page, in one file that loads nothing: its policy makes the browser enforce that. All members are HTML.
struct HtmlPage {
  std::string title, product = "Bascule";  // the title of the window: "demo.toml · Bascule doctor"
  std::string generator;                   // "bascule doctor", for pages that a command knows as its own; "": not named
  std::string style;                       // behind html_style()
  std::string header;                      // before the main part: <header>, <nav>
  std::string main;
  std::string footer = "This page is one file and loads nothing from the network.";
};

std::string html_page(const HtmlPage& page);
// What a page with this generator begins with.
std::string html_begin(const std::string& generator);

// The style sheet of every page, without its <style> tags.
const char* html_style();

}  // namespace bascule
