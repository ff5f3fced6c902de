// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/across_splits.h"

#include <algorithm>

namespace bascule {
namespace {

// Keeps the examples whose first row comes first.
void add_example(SharedRows* cell, RowOfSplit row, RowOfSplit other) {
  auto& examples = cell->examples;
  const auto place = std::upper_bound(examples.begin(), examples.end(), row,
                                      [](RowOfSplit value, const auto& pair) { return value < pair.first; });
  if (place == examples.end() && examples.size() >= kMostExamples) return;
  examples.insert(place, {row, other});
  if (examples.size() > kMostExamples) examples.pop_back();
}

}  // namespace

EqualContentCounter::EqualContentCounter(std::size_t splits) : splits_(splits), cells_(splits * splits) {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    cells_[i].of = i / splits;
    cells_[i].in = i % splits;
  }
}

void EqualContentCounter::add(RowOfSplit row, RowOfSplit other) {
  SharedRows& cell = cells_[row.split * splits_ + other.split];
  ++cell.rows;
  add_example(&cell, row, other);
}

void EqualContentCounter::add(const std::vector<RowOfSplit>& group) {
  std::vector<RowOfSplit> firsts;  // of each split so far
  for (const RowOfSplit& row : group) {
    const bool is_first = firsts.empty() || firsts.back().split != row.split;
    if (is_first) firsts.push_back(row);
    for (const RowOfSplit& first : firsts) {
      if (is_first && first.split == row.split) continue;
      add(row, first);
    }
  }
}

EqualContent EqualContentCounter::content() const {
  EqualContent content;
  for (const SharedRows& cell : cells_) {
    if (cell.rows > 0) (cell.of == cell.in ? content.repeated : content.shared).push_back(cell);
  }
  return content;
}

EqualContent equal_content(const std::vector<const RowDigests*>& by_split) {
  EqualContentCounter counter(by_split.size());
  find_equal_rows(by_split, [&](const std::vector<RowOfSplit>& group) { counter.add(group); });
  return counter.content();
}

}  // namespace bascule
