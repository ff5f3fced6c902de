// SPDX-License-Identifier: Apache-2.0
// The frame that every page has, text made safe for HTML, and bytes for data URIs. Allocates.
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

// A share as a number: 0.25 is "25 %".
std::string percent(double share);

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

}  // namespace bascule
