// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/digest.h"
#include "src/doctor/data.h"
#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"
#include "src/judge/rouge.h"
#include "src/logs/step_record.h"

namespace bascule {
namespace {

// From this share on it is a warning.
constexpr double kMuchCut = 0.01, kMuchUnknown = 0.01, kManySentences = 0.05;

bool is_at_least(std::int64_t part, std::int64_t all, double share) {
  return static_cast<double>(part) >= share * static_cast<double>(all);
}

// "3 of 1,583 captions"
std::string part_of(std::int64_t part, const TextFigures& figures) {
  return count_text(part) + " of " + count_text(figures.texts) + " " + figures.kind;
}

std::vector<Example> examples_of(const OpenedData& opened, const SplitTexts& texts, const std::vector<NotedText>& noted,
                                 const char* unit) {
  std::vector<Example> examples;
  for (const NotedText& text : noted) {
    const std::string tokens = *unit == '\0' ? "" : " (" + count_text(text.tokens) + unit + ")";
    examples.push_back({shown_text(opened, texts, text.row) + tokens, {}});
  }
  return examples;
}

// Only what a run accepts: lengths for which the model has positions.
std::string advice_for_cut(const TextShape& shape, const TextFigures& figures) {
  const std::int64_t positions =
      shape.max_positions == 0 ? figures.longest : shape.max_positions - shape.positions.first;
  const std::int64_t most = std::min(figures.longest, positions), usual = figures.quantile(0.99);
  const std::string setting = figures.limit_setting + " = ";
  if (most <= figures.limit) return "shorten them: the model has no positions for more tokens";
  std::string advice = "set " + setting + std::to_string(most) +
                       (most == figures.longest ? " to cut none" : ", the most that the model has positions for");
  if (usual > figures.limit && usual < most) advice += ", or " + std::to_string(usual) + " to keep 99 % whole";
  return advice;
}

void find_cut(const OpenedData& opened, const SplitTexts& texts, std::vector<Finding>* findings) {
  const TextFigures& figures = texts.figures;
  if (figures.cut_texts == 0) return;
  const bool is_much = is_at_least(figures.cut_texts, figures.texts, kMuchCut);
  findings->push_back({is_much ? Level::kWarning : Level::kNote, "cut_texts",
                       opened.name(texts.split) + ": " + part_of(figures.cut_texts, figures) + " " +
                           verb_of(figures.cut_texts) + " cut at " + figures.limit_setting + " = " +
                           std::to_string(figures.limit) + ", and the model does not read the words behind it; " +
                           share_text(figures.cut_tokens, figures.tokens) + " of all tokens are lost",
                       advice_for_cut(opened.data().loader.texts[texts.number], figures), figures.cut_texts,
                       examples_of(opened, texts, texts.cut, " tokens")});
}

void find_empty(const OpenedData& opened, const SplitTexts& texts, std::vector<Finding>* findings) {
  const TextFigures& figures = texts.figures;
  if (figures.empty_texts == 0) return;
  // A row without a source or a target is a bad sample.
  const Manifest& manifest = *opened.data().splits[texts.split].manifest;
  const bool are_bad = std::any_of(texts.empty.begin(), texts.empty.end(),
                                   [&](const NotedText& text) { return manifest.has_empty_text(text.row); });
  const bool stops = are_bad && opened.stops_at_bad_samples();
  findings->push_back({stops ? Level::kFails : Level::kWarning, "empty_texts",
                       opened.name(texts.split) + ": " + part_of(figures.empty_texts, figures) + " " +
                           has_of(figures.empty_texts) + " no words",
                       stops     ? "write a text, remove the row, or set data.on_bad_sample = \"skip\""
                       : are_bad ? "write a text, or remove the row, which the run skips"
                                 : "write a text, or remove the row",
                       figures.empty_texts, examples_of(opened, texts, texts.empty, "")});
}

// Targets that ROUGE cannot judge, where texts are generated to be judged by it.
void find_without_rouge(const OpenedData& opened, const SplitTexts& texts, std::vector<Finding>* findings) {
  const RecordedSplit& split = opened.data().splits[texts.split];
  const TrainingSettings& training = opened.settings().training;
  if (texts.number != 1 || split.split == Split::kTrain || !training.predict_with_generate) return;
  std::vector<NotedText> found;
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < split.manifest->rows(); ++row) {
    const std::string_view target = split.manifest->row(row).second_text.value_or("");
    if (is_empty_text(target) || Rouge::has_words(target)) continue;
    ++count;
    if (found.size() < opened.most_examples()) found.push_back({row, 0});
  }
  if (count == 0) return;
  const bool chooses = figure_name(training.metric_for_best_model).substr(0, 5) == "rouge";
  findings->push_back({Level::kWarning, "targets_without_rouge",
                       opened.name(texts.split) + ": " + part_of(count, texts.figures) + " " + has_of(count) +
                           " no word that ROUGE counts (letters a to z, digits): whatever is generated, its ROUGE is 0",
                       chooses ? "choose the best weights by the loss: training.metric_for_best_model = \"loss\""
                               : "judge by the loss, or by a figure of your own from predictions.jsonl",
                       count, examples_of(opened, texts, found, "")});
}

void find_unknown(const OpenedData& opened, const SplitTexts& texts, std::vector<Finding>* findings) {
  const TextFigures& figures = texts.figures;
  if (figures.unknown_tokens == 0) return;
  const bool is_much =
      figures.texts_all_unknown > 0 || is_at_least(figures.unknown_tokens, figures.tokens, kMuchUnknown);
  std::string what = opened.name(texts.split) + ": " + part_of(figures.texts_with_unknown, figures) + " " +
                     has_of(figures.texts_with_unknown) + " words that the tokenizer does not know, " +
                     share_text(figures.unknown_tokens, figures.tokens) + " of all tokens";
  if (figures.texts_all_unknown > 0)
    what += "; " + count_text(figures.texts_all_unknown) + " " + has_of(figures.texts_all_unknown) + " no known word";
  findings->push_back({is_much ? Level::kWarning : Level::kNote, "unknown_tokens", what,
                       "use a tokenizer of the texts' language, or correct the texts", figures.texts_with_unknown,
                       examples_of(opened, texts, texts.unknown, " unknown")});
}

// Texts of one kind, by split.
void find_equal(const OpenedData& opened, const std::vector<const SplitTexts*>& by_split,
                std::vector<Finding>* findings) {
  std::vector<const RowDigests*> digests;
  digests.reserve(by_split.size());
  for (const SplitTexts* texts : by_split) digests.push_back(&texts->digests);
  const EqualContent content = equal_content(digests, opened.most_examples());
  const std::string& kind = by_split.front()->figures.kind;
  const auto examples = [&](const SharedRows& shared) {
    std::vector<Example> list;
    for (const auto& [row, other] : shared.examples) {
      const SplitTexts& theirs = *by_split[other.split];
      const bool is_corpus = opened.data().splits[theirs.split].corpus != nullptr;
      list.push_back({shown_text(opened, *by_split[row.split], row.row) + " is also " +
                          (is_corpus ? shown_text(opened, theirs, other.row) : opened.where(theirs.split, other.row)),
                      {}});
    }
    return list;
  };
  for (const SharedRows& shared : content.shared) {
    const TextFigures& figures = by_split[shared.of]->figures;
    // Captions of different pictures may be equal, and short sentences are.
    const bool is_leak =
        kind == "sentences" ? is_at_least(shared.rows, figures.texts, kManySentences) : kind != "captions";
    findings->push_back({is_leak ? Level::kWarning : Level::kNote, "texts_in_two_splits",
                         opened.name(by_split[shared.of]->split) + ": " + part_of(shared.rows, figures) + " " +
                             verb_of(shared.rows) + " in " + opened.name(by_split[shared.in]->split) + " too",
                         is_leak ? advice_for_shared(opened, by_split[shared.in]->split) : "", shared.rows,
                         examples(shared)});
  }
  for (const SharedRows& repeated : content.repeated) {
    const TextFigures& figures = by_split[repeated.of]->figures;
    findings->push_back({Level::kNote, "repeated_texts",
                         opened.name(by_split[repeated.of]->split) + ": " + part_of(repeated.rows, figures) + " " +
                             (repeated.rows == 1 ? "repeats" : "repeat") + " an earlier one",
                         "", repeated.rows, examples(repeated)});
  }
}

// Rows whose texts are embedded each by itself: texts that several rows have, and rows that have one twice.

// Rows that have something, and the first of them.
struct NotedRows {
  std::int64_t count = 0;
  std::vector<Example> examples;

  // place: of the text to show among the row's.
  void add(const OpenedData& opened, std::size_t split, std::int64_t row, int place) {
    ++count;
    if (examples.size() >= opened.most_examples()) return;
    SplitTexts texts;
    texts.split = split;
    texts.place = place;
    examples.push_back({shown_text(opened, texts, row), {}});
  }
};

std::string rows_of(const OpenedData& opened, std::size_t split, std::int64_t count) {
  return opened.name(split) + ": " + count_text(count) + " of " +
         counted(opened.data().splits[split].manifest->rows(), "row") + " ";
}

// A row with the same text twice: a pair of equal texts is learnt by any model, and a negative that belongs is none.
void find_equal_in_rows(const OpenedData& opened, std::size_t split, std::vector<Finding>* findings) {
  const Manifest& manifest = *opened.data().splits[split].manifest;
  NotedRows pairs, negatives;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    const std::string_view anchor = manifest.text(row, 0), positive = manifest.text(row, 1);
    if (anchor == positive) pairs.add(opened, split, row, 0);
    for (std::size_t i = 2; i < manifest.texts_of_a_row(); ++i) {
      const std::string_view negative = manifest.text(row, i);
      if (negative != anchor && negative != positive) continue;
      negatives.add(opened, split, row, static_cast<int>(i));
      break;
    }
  }
  if (pairs.count > 0)
    findings->push_back({Level::kWarning, "equal_pairs",
                         rows_of(opened, split, pairs.count) + has_of(pairs.count) +
                             " the same text in both columns: nothing is learnt from them",
                         "remove them", pairs.count, pairs.examples});
  if (negatives.count > 0)
    findings->push_back({Level::kWarning, "false_negatives",
                         rows_of(opened, split, negatives.count) + has_of(negatives.count) +
                             " a negative that is also a text of its own pair",
                         "remove them", negatives.count, negatives.examples});
}

// Each text of a batch is a negative of all rows but its own.
void find_shared_by_rows(const OpenedData& opened, std::size_t split, std::vector<Finding>* findings) {
  const Manifest& manifest = *opened.data().splits[split].manifest;
  const std::size_t columns = manifest.texts_of_a_row(), texts = columns * static_cast<std::size_t>(manifest.rows());
  RowDigests digests;
  digests.reserve(texts);
  for (std::size_t i = 0; i < texts; ++i) {
    const std::string_view text = manifest.text(static_cast<std::int64_t>(i / columns), i % columns);
    digests.push_back(std::max<std::uint64_t>(1, digest_of(text.data(), text.size())));
  }
  std::vector<bool> shares(static_cast<std::size_t>(manifest.rows()));
  find_equal_rows({&digests}, [&](const std::vector<RowOfSplit>& group) {
    if (group.front().row / columns == group.back().row / columns) return;  // ascending: all of one row
    for (const RowOfSplit& one : group) shares[one.row / columns] = true;
  });
  NotedRows rows;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    if (shares[static_cast<std::size_t>(row)]) rows.add(opened, split, row, 0);
  }
  if (rows.count == 0) return;
  const bool are_apart = opened.settings().training.batch_sampler == BatchSampler::kNoDuplicates;
  findings->push_back({are_apart ? Level::kNote : Level::kWarning, "shared_texts",
                       rows_of(opened, split, rows.count) + has_of(rows.count) + " a text that another row has too" +
                           (are_apart ? "; training.batch_sampler = \"no_duplicates\" keeps them in different batches"
                                      : ", and the loss takes it for a negative where both are in a batch"),
                       are_apart ? "" : "set training.batch_sampler = \"no_duplicates\"", rows.count, rows.examples});
}

}  // namespace

void find_in_texts(const OpenedData& opened, const std::vector<SplitTexts>& texts, std::vector<Finding>* findings) {
  for (const SplitTexts& of_split : texts) {
    find_cut(opened, of_split, findings);
    find_empty(opened, of_split, findings);
    find_unknown(opened, of_split, findings);
    find_without_rouge(opened, of_split, findings);
  }
  // Targets may be equal, as labels are: the first text of a sample decides.
  std::vector<const SplitTexts*> by_split;
  for (const SplitTexts& of_split : texts) {
    if (of_split.number == 0 && of_split.place <= 0) by_split.push_back(&of_split);
  }
  if (!by_split.empty()) find_equal(opened, by_split, findings);
}

void find_in_rows_of_texts(const OpenedData& opened, std::vector<Finding>* findings) {
  if (!opened.data().loader.takes_texts_in_a_row) return;
  for (std::size_t split = 0; split < opened.data().splits.size(); ++split) {
    if (opened.data().splits[split].manifest->texts_of_a_row() < 2) continue;
    find_equal_in_rows(opened, split, findings);
    const EmbeddingLoss loss = opened.settings().training.loss;
    const bool are_negatives = loss == EmbeddingLoss::kRanking || loss == EmbeddingLoss::kSymmetricRanking;
    if (opened.data().splits[split].split == Split::kTrain && are_negatives)
      find_shared_by_rows(opened, split, findings);
  }
}

}  // namespace bascule
