// SPDX-License-Identifier: Apache-2.0
// Shows what a model found in words with tags: the figures of each type of entity, and texts with marked entities.
#include <cstddef>
#include <string>
#include <vector>

#include "src/answer/html_cells.h"
#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

std::string figures_table(const Report& report) {
  std::string body;
  for (const EntityFigures& one : report.entity_figures) {
    body += "<tr><th scope=\"row\">" + html_escape(one.type) + "</th>" + number_cell(percent(one.f1)) +
            number_cell(percent(one.precision)) + number_cell(percent(one.recall)) +
            number_cell(readable_count(one.labelled).c_str()) + number_cell(readable_count(one.predicted).c_str()) +
            "</tr>\n";
  }
  return "<div class=\"card\"><h3>Figures of each type</h3>\n" +
         wide_table("Figures of each type",
                    text_head("type") + number_head("F1") + number_head("precision, of predicted") +
                        number_head("recall, of labelled") + number_head("labelled") + number_head("predicted"),
                    body, report.entity_figures.size() > kMostRowsInSight) +
         "</div>\n";
}

// The words, each entity in a frame with its type. Where further tokens of a word have labels, a word can be in two
// entities: then the first of them shows.
std::string marked_words(const std::vector<std::string>& words, const std::vector<MarkedEntity>& entities) {
  std::string out;
  std::size_t word = 0;
  const auto add_words = [&](std::size_t end) {
    for (; word < end; ++word) out += html_escape(words[word]) + (word + 1 < end ? " " : "");
  };
  for (const MarkedEntity& entity : entities) {
    if (entity.begin < word) continue;
    if (entity.begin > word) {
      add_words(entity.begin);
      out += " ";
    }
    out += entity.right ? "<mark class=\"right\">" : "<mark>";
    add_words(entity.end);
    out += "<sub>" + html_escape(entity.type) + (entity.right ? " ✓" : "") + "</sub></mark> ";
  }
  add_words(words.size());
  return out;
}

}  // namespace

std::string entities_section(const Report& report) {
  if (report.tagged_texts.empty()) return "";
  std::string out = report.entity_figures.empty() ? "" : figures_table(report);
  out +=
      "<p class=\"lead\">Texts of the split, those with the most mistakes first: the entities that are labelled, and "
      "below them those that the model found.</p>\n<div class=\"queries\">\n";
  for (const TaggedText& text : report.tagged_texts) {
    out += "<article class=\"query\"><p class=\"tokens\" dir=\"auto\">" + marked_words(text.words, text.labelled) +
           "</p><p class=\"tokens\" dir=\"auto\">" + marked_words(text.words, text.predicted) + "</p></article>\n";
  }
  return out + "</div>\n";
}

}  // namespace bascule
