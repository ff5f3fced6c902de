// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

// Whether the right one must be shown behind the hits, with its rank.
template <typename Example>
bool is_missed(const Example& example) {
  return example.right_rank > 0 &&
         std::none_of(example.hits.begin(), example.hits.end(), [](const auto& hit) { return hit.right; });
}

std::string rank_text(std::int64_t rank) { return std::string("rank ") + readable_count(rank).c_str(); }

std::string picture_item(const Report& report, const PictureHit& hit, const std::string& note) {
  return std::string("<li") + (hit.right ? " class=\"right\"" : "") + ">" +
         picture_element(report, hit.picture, "small") + "<span>" + score_text(hit.score) + (hit.right ? " ✓" : "") +
         note + "</span></li>\n";
}

std::string caption_item(const CaptionHit& hit, const std::string& note) {
  return std::string("<li") + (hit.right ? " class=\"right\"" : "") + "><span class=\"score\">" +
         score_text(hit.score) + note + "</span><span class=\"clamped\" dir=\"auto\">" + html_escape(hit.caption) +
         "</span>" + (hit.right ? "<b>✓</b>" : "") + "</li>\n";
}

}  // namespace

std::string picture_element(const Report& report, std::size_t index, const char* extra_class) {
  if (index >= report.pictures.size()) return std::string("<div class=\"picture ") + extra_class + "\"></div>";
  const ReportPicture& shown = report.pictures[index];
  const std::string alternative = shown.caption.empty() ? shown.name : shown.caption;
  return std::string("<div class=\"picture ") + extra_class + " p" + std::to_string(index) +
         "\" role=\"img\" aria-label=\"" + html_escape(alternative) + "\" title=\"" + html_escape(shown.name) +
         "\"></div>";
}

std::string caption_examples_section(const Report& report) {
  if (report.caption_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">For each caption, the five nearest pictures of the split with their scores. The correct one "
      "is framed; if it is not among the five, it follows with its rank.</p>\n<div class=\"queries\">\n";
  for (const CaptionExample& example : report.caption_examples) {
    out += "<article class=\"query\"><blockquote class=\"clamped\" dir=\"auto\">" + html_escape(example.caption) +
           "</blockquote><ol class=\"hits\">\n";
    for (const PictureHit& hit : example.hits) out += picture_item(report, hit, "");
    if (is_missed(example)) out += picture_item(report, example.right_hit, "<br>" + rank_text(example.right_rank));
    out += "</ol></article>\n";
  }
  return out + "</div>\n";
}

std::string picture_examples_section(const Report& report) {
  if (report.picture_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">For each picture, the five nearest captions of the split with their scores. Correct ones are "
      "marked; if none is among the five, the best of them follows with its rank.</p>\n<div class=\"queries\">\n";
  for (const PictureExample& example : report.picture_examples) {
    out += "<article class=\"query from-picture\">" + picture_element(report, example.picture, "large") + "<div><ol>\n";
    for (const CaptionHit& hit : example.hits) out += caption_item(hit, "");
    if (is_missed(example)) out += caption_item(example.right_hit, "<br>" + rank_text(example.right_rank));
    out += "</ol></div></article>\n";
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
    if (is_missed(example)) show(example.right_hit.picture);
  }
  for (const PictureExample& example : report.picture_examples) show(example.picture);
  for (const ClassExample& example : report.class_examples) show(example.picture);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i]) continue;
    out += ".p" + std::to_string(i) + "{background-image:url(" + picture_url(report.pictures[i].file) + ")}\n";
  }
  return out;
}

}  // namespace bascule
