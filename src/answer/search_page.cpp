// SPDX-License-Identifier: Apache-2.0
#include "src/answer/search_page.h"

#include <cstdint>
#include <cstdio>

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/answer/table.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

// Beside the report's own style: a grid of cards, a picture each.
constexpr const char* kSearchStyle = R"css(
.asked{display:flex;gap:20px;align-items:center;margin-top:10px}.asked img{flex:none;max-width:160px;max-height:160px;border-radius:8px}
.asked h1{margin:0;min-width:0}
.found{list-style:none;margin:0;padding:0;display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(200px,100%),1fr))}
.found li{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px;min-width:0;break-inside:avoid}
.found.texts{grid-template-columns:1fr}.found.texts p{font-size:15px;white-space:pre-line}
.found .picture{margin-bottom:8px;overflow:hidden}
.found img{display:block;width:100%;height:100%;object-fit:contain}
.found .right{border-color:var(--good)}
.found b{font-size:15px}.found p{margin:2px 0 0;font-size:13.5px;font-weight:400;color:var(--ink)}
.found code{display:block;font-size:11.5px;color:var(--soft);overflow-wrap:anywhere;margin-top:4px}
)css";

// "300 pictures of validation"
std::string searched_text(const SearchAnswer& answer) {
  return readable_count(static_cast<std::int64_t>(answer.candidates)) +
         (answer.of_texts       ? " texts of "
          : answer.from_picture ? " captions of "
                                : " pictures of ") +
         answer.searched;
}

std::string image(const std::vector<std::uint8_t>& file, const std::string& name) {
  if (file.empty()) return "";
  return "<img src=\"" + picture_url(file) + "\" alt=\"" + html_escape(name) + "\">";
}

// file: of the picture; null where it is a text.
std::string card(const SearchHit& hit, const std::vector<std::uint8_t>* file) {
  std::string out = hit.right ? "<li class=\"right\">" : "<li>";
  if (file != nullptr)
    out += "<div class=\"picture\">" + image(*file, hit.caption.empty() ? hit.path : hit.caption) + "</div>";
  out += "<b>" + score_text(hit.score) + (hit.right ? " ✓" : "") + "</b>";
  if (!hit.caption.empty()) out += "<p dir=\"auto\">" + html_escape(hit.caption) + "</p>";
  return out + "<code>" + html_escape(hit.path) + "</code></li>\n";
}

}  // namespace

std::string search_text(const SearchAnswer& answer) {
  const std::string query = answer.from_picture ? answer.query : "\"" + answer.query + "\"";
  std::string out = printable_line(query + ": the nearest of " + searched_text(answer)) + "\n";
  for (std::size_t i = 0; i < answer.hits.size(); ++i) {
    const SearchHit& hit = answer.hits[i];
    char head[64];
    std::snprintf(head, sizeof head, "%4zu %7s %s ", i + 1, score_text(hit.score).c_str(), hit.right ? "*" : " ");
    const std::string path = shown_path(hit.path);
    const bool are_texts = answer.from_picture || answer.of_texts;
    const std::string& first = are_texts ? hit.caption : path;
    const std::string& second = are_texts ? path : hit.caption;
    out += head + printable_line(second.empty() ? first : first + "  (" + second + ")") + "\n";
  }
  return out;
}

std::string search_html(const SearchAnswer& answer, const SearchPictures& pictures) {
  const std::size_t folder_end = answer.from_picture ? answer.query.rfind('/') + 1 : 0;  // npos + 1 is 0
  HtmlPage page;
  page.product = "Bascule search";
  page.title = answer.query.substr(folder_end);
  page.note = answer.model;
  page.style = map_style(answer.map) + kSearchStyle;
  page.picture = image(pictures.query, answer.query);
  page.subtitle = "the nearest " + readable_count(static_cast<std::int64_t>(answer.hits.size())) + " of " +
                  html_escape(searched_text(answer)) +
                  (answer.of_texts ? "" : ", with their cosine similarities; ✓ marks known matches");
  std::string found;
  for (std::size_t i = 0; i < answer.hits.size(); ++i)
    found += card(answer.hits[i], answer.of_texts ? nullptr : &pictures.hits[i]);
  std::vector<NamedText> refused;
  for (const RefusedPicture& picture : answer.refused) refused.push_back({picture.path, picture.reason});
  page.sections = {
      {"", std::string("<ol class=\"found") + (answer.of_texts ? " texts" : "") + "\">\n" + found + "</ol>", false},
      {"Map of the embeddings", embedding_map_section(answer.map)},
      {"Skipped", html_of(refused)}};
  return html_page(page);
}

}  // namespace bascule
