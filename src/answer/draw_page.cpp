// SPDX-License-Identifier: Apache-2.0
#include "src/answer/draw_page.h"

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/answer/table.h"
#include "src/base/utf8.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

// Beside the report's own style: a grid of pictures.
constexpr const char* kDrawStyle = R"css(
.drawn{list-style:none;margin:0;padding:0;display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(160px,100%),1fr))}
.drawn li{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px;min-width:0;break-inside:avoid}
.drawn img{display:block;width:100%;object-fit:fill}
.drawn p{margin:6px 0 0;font-size:13.5px}.drawn code{font-size:11.5px;color:var(--soft)}
)css";

constexpr std::size_t kPromptBytes = 400;  // that are shown; a model reads about as many

std::string shown(const std::string& prompt) {
  if (prompt.size() <= kPromptBytes) return html_escape(prompt);
  return html_escape(prompt.substr(0, utf8_cut(prompt, kPromptBytes))) + "…";
}

std::string operations_table(const std::vector<PageOperation>& operations) {
  if (operations.empty()) return "";
  double all = 0.0;
  bool has_limits = false;
  for (const PageOperation& one : operations) {
    all += one.seconds;
    has_limits = has_limits || one.limit_seconds > 0.0;
  }
  Table table{"Operations", {"operation", number("time"), number("share"), number("GFLOP/s")}};
  if (has_limits) table.columns.push_back(number("of its limit"));
  for (const PageOperation& one : operations) {
    const double rate = one.seconds > 0.0 ? one.flops / one.seconds * 1e-9 : 0.0;
    table.rows.push_back({one.kind, readable_seconds(one.seconds), percent(all > 0.0 ? one.seconds / all : 0.0),
                          one.flops > 0.0 ? std::string(readable_number(rate)) : ""});
    if (has_limits) table.rows.back().push_back(one.seconds > 0.0 ? percent(one.limit_seconds / one.seconds) : "");
  }
  std::string out = "<div class=\"card\">" + html_of(table) + "</div>\n";
  if (has_limits)
    out +=
        "<p class=\"sub\">Limit: arithmetic as fast as matrix products, memory as fast as a copy outside the caches, "
        "measured before the run. An operation on cached data can be faster.</p>\n";
  return out;
}

std::string pictures_list(const DrawPage& page) {
  if (page.pictures.empty()) return "";
  std::string out = "<ol class=\"drawn\">\n";
  for (const PagePicture& picture : page.pictures) {
    const std::string file = html_escape(picture.file), prompt = shown(picture.prompt);
    const std::string image = picture.thumbnail.empty()
                                  ? file
                                  : "<img src=\"" + picture_url(picture.thumbnail) + "\" alt=\"" + prompt +
                                        "\" style=\"aspect-ratio:" + std::to_string(page.width) + "/" +
                                        std::to_string(page.height) + "\">";
    out += "<li><a href=\"" + file + "\">" + image + "</a><p dir=\"auto\">" + prompt + "</p>" +
           (picture.negative.empty() ? "" : "<p class=\"sub\" dir=\"auto\">not: " + shown(picture.negative) + "</p>") +
           "<code>" + html_escape(picture.file + ", " + picture.facts) + "</code></li>\n";
  }
  out += "</ol>\n";
  const std::size_t more = page.all_pictures - page.pictures.size();
  if (more > 0)
    out += "<p class=\"sub\">" + readable_count(static_cast<std::int64_t>(more)) +
           " more lie in the folder of this page.</p>\n";
  return out;
}

}  // namespace

std::string draw_html(const DrawPage& drawn) {
  HtmlPage page;
  page.product = "Bascule";
  page.title = drawn.title;
  page.style = kDrawStyle;
  page.sections = {{"Figures", html_of(drawn.figures), false},
                   {"Pictures", pictures_list(drawn), false},
                   {"Time of the UNet's calls by operation", operations_table(drawn.operations), false},
                   {"Settings", settings_section(drawn.settings), false}};
  page.footer = "The pictures lie beside this page, which holds small copies and loads nothing.";
  return html_page(page);
}

}  // namespace bascule
