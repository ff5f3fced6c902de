// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "src/report/html_parts.h"
#include "src/report/html_text.h"
#include "src/report/readable.h"

namespace bascule {
namespace {

std::string score_text(double score) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", score);
  return text;
}

// A hit that names no picture of the report is shown as an empty frame.
std::string picture(const Report& report, std::size_t index, const char* extra_class) {
  const std::string name = index < report.pictures.size() ? html_escape(report.pictures[index].name) : "";
  return std::string("<div class=\"picture ") + extra_class + " p" + std::to_string(index) +
         "\" role=\"img\" aria-label=\"" + name + "\" title=\"" + name + "\"></div>";
}

// Where the right one is, if it is not among those shown.
template <typename Hit>
std::string missed(const std::vector<Hit>& hits, std::int64_t right_rank) {
  const bool shown = std::any_of(hits.begin(), hits.end(), [](const Hit& hit) { return hit.right; });
  if (shown || right_rank <= 0) return "";
  return std::string("<p class=\"missed\">the right one stands at place ") + readable_count(right_rank).c_str() +
         "</p>";
}

}  // namespace

std::string caption_examples_section(const Report& report) {
  if (report.caption_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">Each caption searches all pictures of the split; the best five with their scores, the right "
      "one framed.</p>\n<div class=\"queries\">\n";
  for (const CaptionExample& example : report.caption_examples) {
    out += "<article class=\"query\"><blockquote dir=\"auto\">" + html_escape(example.caption) +
           "</blockquote><ol class=\"hits\">\n";
    for (const PictureHit& hit : example.hits) {
      out += std::string("<li") + (hit.right ? " class=\"right\"" : "") + ">" + picture(report, hit.picture, "small") +
             "<span>" + score_text(hit.score) + (hit.right ? " ✓" : "") + "</span></li>\n";
    }
    out += "</ol>" + missed(example.hits, example.right_rank) + "</article>\n";
  }
  return out + "</div>\n";
}

std::string picture_examples_section(const Report& report) {
  if (report.picture_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">Each picture searches all captions of the split; the best five with their scores, the right "
      "one marked.</p>\n<div class=\"queries\">\n";
  for (const PictureExample& example : report.picture_examples) {
    out += "<article class=\"query from-picture\">" + picture(report, example.picture, "large") + "<div><ol>\n";
    for (const CaptionHit& hit : example.hits) {
      out += std::string("<li") + (hit.right ? " class=\"right\"" : "") + "><span class=\"score\">" +
             score_text(hit.score) + "</span><span dir=\"auto\">" + html_escape(hit.caption) + "</span>" +
             (hit.right ? "<b>✓</b>" : "") + "</li>\n";
    }
    out += "</ol>" + missed(example.hits, example.right_rank) + "</div></article>\n";
  }
  return out + "</div>\n";
}

std::string picture_styles(const Report& report) {
  std::vector<bool> shown(report.pictures.size(), false);
  const auto show = [&shown](std::size_t index) {
    if (index < shown.size()) shown[index] = true;
  };
  for (const CaptionExample& example : report.caption_examples) {
    for (const PictureHit& hit : example.hits) show(hit.picture);
  }
  for (const PictureExample& example : report.picture_examples) show(example.picture);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i]) continue;
    out += ".p" + std::to_string(i) + "{background-image:url(data:image/jpeg;base64," +
           base64(report.pictures[i].jpeg) + ")}\n";
  }
  return out;
}

}  // namespace bascule
