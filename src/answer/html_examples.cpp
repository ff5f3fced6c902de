// SPDX-License-Identifier: Apache-2.0
// Examples of report.html: what the model finds, predicts and writes for single rows.
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "src/answer/report.h"
#include "src/base/error.h"

namespace bascule {
namespace {

// A picture of the report as an element; an empty frame where there is none. The pictures are backgrounds of classes
// p0, p1, ..., so that each is embedded once however often it is shown: picture_styles().
std::string picture_element(const Report& report, std::size_t index, const char* extra_class) {
  if (index >= report.pictures.size()) return std::string("<div class=\"picture ") + extra_class + "\"></div>";
  const ReportPicture& shown = report.pictures[index];
  const std::string alternative = shown.caption.empty() ? shown.name : shown.caption;
  return std::string("<div class=\"picture ") + extra_class + " p" + std::to_string(index) +
         "\" role=\"img\" aria-label=\"" + html_escape(alternative) + "\" title=\"" + html_escape(shown.name) +
         "\"></div>";
}

// A hit, with a note behind its score.
std::string hit_item(const Report& report, const RetrievalHit& hit, const std::string& note) {
  const std::string score = score_text(hit.score), begin = hit.right ? "<li class=\"right\">" : "<li>";
  if (hit.picture != kNoPicture)
    return begin + picture_element(report, hit.picture, "small") + "<span>" + score + (hit.right ? " ✓" : "") + note +
           "</span></li>\n";
  return begin + "<span class=\"score\">" + score + note + "</span><span class=\"clamped\" dir=\"auto\">" +
         html_escape(hit.text) + "</span>" + (hit.right ? "<b>✓</b>" : "") + "</li>\n";
}

// Whether the right one must be shown behind the hits, with its rank.
bool is_missed(const RetrievalExample& example) {
  return example.right_rank > 0 &&
         std::none_of(example.hits.begin(), example.hits.end(), [](const RetrievalHit& hit) { return hit.right; });
}

std::string retrieval(const Report& report, const std::vector<RetrievalExample>& examples, const char* lead) {
  std::string out = std::string("<p class=\"lead\">") + lead + "</p>\n<div class=\"queries\">\n";
  for (const RetrievalExample& example : examples) {
    const bool is_picture = example.picture != kNoPicture, finds_pictures = example.right_hit.picture != kNoPicture;
    out += is_picture
               ? "<article class=\"query from-picture\">" + picture_element(report, example.picture, "large") +
                     "<div><ol>\n"
               : "<article class=\"query\"><blockquote class=\"clamped\" dir=\"auto\">" + html_escape(example.text) +
                     "</blockquote><ol" + (finds_pictures ? " class=\"hits\">\n" : ">\n");
    for (const RetrievalHit& hit : example.hits) out += hit_item(report, hit, "");
    if (is_missed(example))
      out += hit_item(report, example.right_hit, std::string("<br>rank ") + readable_count(example.right_rank));
    out += is_picture ? "</ol></div></article>\n" : "</ol></article>\n";
  }
  return examples.empty() ? "" : out + "</div>\n";
}

std::string share_of(std::int64_t part, std::int64_t whole) {
  return readable_percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string accuracy_table(const Report& report) {
  Table table{"Accuracy of each class", {"class", number("share right"), number("right"), number("rows")}};
  for (const ClassAccuracy& one : report.class_accuracies)
    table.rows.push_back(
        {one.name, share_of(one.right, one.rows), readable_count(one.right), readable_count(one.rows)});
  return html_with_heading(table);
}

std::string confusion_table(const Report& report) {
  Table table{"Most frequent confusions", {"class", "predicted", number("rows")}};
  for (const Confusion& one : report.confusions)
    table.rows.push_back({one.label, one.predicted, readable_count(one.rows)});
  return html_with_heading(table);
}

std::string guess_text(const Guess& guess) {
  const std::string text = "<b>" + html_escape(guess.name) + "</b> " + readable_percent(guess.probability);
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
         readable_percent(example.probability) + (is_right ? " ✓" : "") + "</p>\n";
}

std::string class_examples(const Report& report) {
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

std::string text_mistakes(const Report& report) {
  const bool are_classes = !report.text_mistakes.empty();
  const ColumnKind kind = are_classes ? ColumnKind::kText : ColumnKind::kNumber;
  Table table{"Worst mistakes", {{"text", ColumnKind::kHtml}, {"label", kind}, {"predicted", kind}}};
  if (are_classes) table.columns.back().kind = ColumnKind::kHtml;
  const auto texts = [](const std::string& first, const std::string& second) {
    return "<span dir=\"auto\">" + html_escape(first) + (second.empty() ? "" : "<br>" + html_escape(second)) +
           "</span>";
  };
  for (const TextMistake& one : report.text_mistakes) {
    std::string guesses;
    for (const Guess& guess : one.guesses) guesses += guess_text(guess) + "<br>";
    table.rows.push_back({texts(one.text, one.second_text), one.label, guesses});
  }
  for (const TextValue& one : report.text_values)
    table.rows.push_back(
        {texts(one.text, one.second_text), readable_number(one.label), readable_number(one.predicted)});
  if (table.rows.empty()) return "";
  return std::string("<p class=\"lead\">") +
         (are_classes ? "Texts with a wrong class, the most probable of these first."
                      : "Texts whose predicted values are furthest from their labels, the furthest first.") +
         "</p>\n" + html_of(table);
}

std::string text_examples(const Report& report) {
  if (report.text_examples.empty()) return "";
  Table table{"Generated texts",
              {{"source", ColumnKind::kProse},
               {"reference", ColumnKind::kProse},
               {"generated", ColumnKind::kProse},
               number("ROUGE-1"),
               number("ROUGE-2"),
               number("ROUGE-L"),
               number("ROUGE-Lsum")}};
  for (const TextExample& example : report.text_examples) {
    table.rows.push_back({example.source, example.reference, example.generated});
    for (const double rouge : example.rouge) table.rows.back().push_back(formatted("%.1f", rouge));
  }
  return "<p class=\"lead\">Texts that the model wrote, by their ROUGE-Lsum: the best rows of the split first, the "
         "worst last.</p>\n" +
         html_of(table);
}

std::string sentence_examples(const Report& report) {
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

std::string figures_table(const Report& report) {
  Table table{"Figures of each type",
              {"type", number("F1"), number("precision, of predicted"), number("recall, of labelled"),
               number("labelled"), number("predicted")}};
  for (const EntityFigures& one : report.entity_figures)
    table.rows.push_back({one.type, readable_percent(one.f1), readable_percent(one.precision),
                          readable_percent(one.recall), readable_count(one.labelled), readable_count(one.predicted)});
  return "<div class=\"card\">" + html_with_heading(table) + "</div>\n";
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

std::string entities(const Report& report) {
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

}  // namespace

std::vector<HtmlSection> example_sections(const Report& report) {
  return {{"Retrieval: caption to picture",
           retrieval(report, report.caption_examples,
                     "For each caption, the five nearest pictures of the split with their scores. The correct one is "
                     "framed; if it is not among the five, it follows with its rank."),
           false, "captions", "Captions"},
          {"Retrieval: picture to caption",
           retrieval(report, report.picture_examples,
                     "For each picture, the five nearest captions of the split with their scores. Correct ones are "
                     "marked; if none is among the five, the best of them follows with its rank."),
           false, "pictures", "Pictures"},
          {"Retrieval: query to texts",
           retrieval(report, report.query_examples,
                     "For queries of the split, evenly spaced, the five nearest texts with their scores. Relevant ones "
                     "are marked; if none is among the five, the best of them follows with its rank."),
           false, "queries", "Queries"},
          {"Map of the embeddings", embedding_map_section(report.map), true, "map", "Map"},
          {"Classes", accuracy_table(report) + confusion_table(report), true, "classes", "Classes"},
          {"Pictures and predictions", class_examples(report), false, "class-examples", "Predictions"},
          {"Worst mistakes", text_mistakes(report), true, "text-mistakes", "Mistakes"},
          {"Entities", entities(report), false, "entities", "Entities"},
          {"Masked tokens", sentence_examples(report), false, "sentences", "Tokens"},
          {"Generated texts", text_examples(report), true, "texts", "Texts"}};
}

std::string picture_styles(const Report& report) {
  std::set<std::size_t> shown;
  for (const auto* const examples : {&report.caption_examples, &report.picture_examples, &report.query_examples}) {
    for (const RetrievalExample& example : *examples) {
      shown.insert(example.picture);
      for (const RetrievalHit& hit : example.hits) shown.insert(hit.picture);
      if (is_missed(example)) shown.insert(example.right_hit.picture);
    }
  }
  for (const ClassExample& example : report.class_examples) shown.insert(example.picture);
  std::string out;
  for (const std::size_t i : shown) {
    if (i < report.pictures.size())
      out += ".p" + std::to_string(i) + "{background-image:url(" + picture_url(report.pictures[i].file) + ")}\n";
  }
  return out;
}

}  // namespace bascule
