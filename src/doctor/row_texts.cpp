// SPDX-License-Identifier: Apache-2.0
// Rows whose texts are embedded each by itself: texts that several rows have, and rows that have one twice.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/digest.h"
#include "src/base/messages.h"
#include "src/doctor/equal_rows.h"
#include "src/doctor/texts.h"

namespace bascule {
namespace {

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
  const std::int64_t all = opened.data().splits[split].manifest->rows();
  return opened.name(split) + ": " + count_text(count) + " of " + count_text(all) + " " + noun_for(all, "row") + " ";
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
