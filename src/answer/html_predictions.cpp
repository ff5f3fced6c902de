// SPDX-License-Identifier: Apache-2.0
// Shows what a model predicted for single rows: classes of pictures and texts, values of texts, masked tokens.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "src/answer/html_parts.h"
#include "src/answer/html_text.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string share_of(std::int64_t part, std::int64_t whole) {
  return percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string accuracy_table(const Report& report) {
  std::string body;
  for (const ClassAccuracy& one : report.class_accuracies) {
    body += "<tr><th scope=\"row\">" + html_escape(one.name) + "</th>" + number_cell(share_of(one.right, one.rows)) +
            number_cell(readable_count(one.right).c_str()) + number_cell(readable_count(one.rows).c_str()) + "</tr>\n";
  }
  return "<h3>Accuracy of each class</h3>\n" +
         wide_table("Accuracy of each class",
                    text_head("class") + number_head("share right") + number_head("right") + number_head("rows"), body,
                    report.class_accuracies.size() > kMostRowsInSight);
}

std::string confusion_table(const Report& report) {
  if (report.confusions.empty()) return "";
  std::string body;
  for (const Confusion& one : report.confusions) {
    body += "<tr><th scope=\"row\">" + html_escape(one.label) + "</th><td>" + html_escape(one.predicted) + "</td>" +
            number_cell(readable_count(one.rows).c_str()) + "</tr>\n";
  }
  return "<h3>Most frequent confusions</h3>\n" +
         wide_table("Most frequent confusions", text_head("class") + text_head("predicted") + number_head("rows"),
                    body);
}

std::string guess_text(const Guess& guess) {
  const std::string text = "<b>" + html_escape(guess.name) + "</b> " + percent(guess.probability);
  return guess.right ? "<span class=\"right\">" + text + " ✓</span>" : text;
}

// A token that was to be predicted, by the number that its guesses have.
std::string masked_token(const ShownToken& token, std::size_t number) {
  return "<mark title=\"the model saw " + html_escape(token.text) + "\">" + html_escape(token.expected) + "<sub>" +
         std::to_string(number) + "</sub></mark>";
}

std::string verdict(const SentenceExample& example) {
  const auto follows = [](bool it_does) { return it_does ? "follows" : "does not follow"; };
  const bool is_right = example.follows == example.predicted_to_follow;
  return std::string("<p class=\"note") + (is_right ? " right" : "") + "\">The second text " +
         follows(example.follows) + " the first one; the model: " + follows(example.predicted_to_follow) + ", " +
         percent(example.probability) + (is_right ? " ✓" : "") + "</p>\n";
}

}  // namespace

std::string classes_section(const Report& report) {
  return report.class_accuracies.empty() ? "" : accuracy_table(report) + confusion_table(report);
}

std::string class_examples_section(const Report& report) {
  if (report.class_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">Pictures of the split, evenly spaced, with their class and the five most probable ones.</p>\n"
      "<div class=\"queries\">\n";
  for (const ClassExample& example : report.class_examples) {
    out += "<article class=\"query from-picture\">" + picture_element(report, example.picture, "large") +
           "<div><blockquote dir=\"auto\">" + html_escape(example.label) + "</blockquote><ol>\n";
    for (const Guess& guess : example.guesses) out += "<li><span>" + guess_text(guess) + "</span></li>\n";
    out += "</ol></div></article>\n";
  }
  return out + "</div>\n";
}

std::string text_mistakes_section(const Report& report) {
  std::string body;
  const auto texts = [](const std::string& first, const std::string& second) {
    return "<tr><td dir=\"auto\">" + html_escape(first) + (second.empty() ? "" : "<br>" + html_escape(second)) +
           "</td>";
  };
  for (const TextMistake& one : report.text_mistakes) {
    body += texts(one.text, one.second_text) + "<td>" + html_escape(one.label) + "</td><td>";
    for (const Guess& guess : one.guesses) body += guess_text(guess) + "<br>";
    body += "</td></tr>\n";
  }
  for (const TextValue& one : report.text_values) {
    body += texts(one.text, one.second_text) + number_cell(readable_number(one.label).c_str()) +
            number_cell(readable_number(one.predicted).c_str()) + "</tr>\n";
  }
  if (body.empty()) return "";
  const bool are_classes = !report.text_mistakes.empty();
  const auto head = are_classes ? text_head : number_head;
  return std::string("<p class=\"lead\">") +
         (are_classes ? "Texts with a wrong class, the most probable of these first."
                      : "Texts whose predicted values are furthest from their labels, the furthest first.") +
         "</p>\n" + wide_table("Worst mistakes", text_head("text") + head("label") + head("predicted"), body);
}

std::string text_examples_section(const Report& report) {
  if (report.text_examples.empty()) return "";
  std::string body;
  for (const TextExample& example : report.text_examples) {
    body += "<tr><td dir=\"auto\">" + html_escape(example.source) + "</td><td dir=\"auto\">" +
            html_escape(example.reference) + "</td><td dir=\"auto\">" + html_escape(example.generated) + "</td>";
    for (const double rouge : example.rouge) body += number_cell(one_decimal(rouge));
    body += "</tr>\n";
  }
  return "<p class=\"lead\">Texts that the model wrote, by their ROUGE-Lsum: the best rows of the split first, the "
         "worst last.</p>\n" +
         wide_table("Generated texts",
                    text_head("source") + text_head("reference") + text_head("generated") + number_head("ROUGE-1") +
                        number_head("ROUGE-2") + number_head("ROUGE-L") + number_head("ROUGE-Lsum"),
                    body, report.text_examples.size() > kMostRowsInSight);
}

std::string sentence_examples_section(const Report& report) {
  if (report.sentence_examples.empty()) return "";
  std::string out =
      "<p class=\"lead\">Texts of the split, evenly spaced, as tokens. The framed ones were to be predicted; below are "
      "the five most probable tokens for each.</p>\n<div class=\"queries\">\n";
  for (const SentenceExample& example : report.sentence_examples) {
    std::string text, guesses;
    std::size_t number = 0;
    for (const ShownToken& token : example.tokens) {
      const bool is_masked = !token.guesses.empty();
      text += is_masked ? masked_token(token, ++number) + " " : html_escape(token.text) + " ";
      if (!is_masked) continue;
      guesses += "<li>" + std::to_string(number);
      for (const Guess& guess : token.guesses) guesses += " &nbsp; " + guess_text(guess);
      guesses += "</li>\n";
    }
    out += "<article class=\"query\"><p class=\"tokens\" dir=\"auto\">" + text + "</p>" +
           (example.is_pair ? verdict(example) : "") + "<ol class=\"guesses\">\n" + guesses + "</ol></article>\n";
  }
  return out + "</div>\n";
}

// Shows what a model found in words with tags: the figures of each type of entity, and texts with marked entities.

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
