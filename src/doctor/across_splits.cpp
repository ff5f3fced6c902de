// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/across_splits.h"

#include "src/doctor/first_ones.h"

namespace bascule {
namespace {

// The examples whose first row comes first are kept.
bool comes_before(const std::pair<RowOfSplit, RowOfSplit>& a, const std::pair<RowOfSplit, RowOfSplit>& b) {
  return a.first < b.first;
}

}  // namespace

EqualContentCounter::EqualContentCounter(std::size_t splits, std::size_t most)
    : splits_(splits), most_(most), cells_(splits * splits) {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    cells_[i].of = i / splits;
    cells_[i].in = i % splits;
  }
}

void EqualContentCounter::add(RowOfSplit row, RowOfSplit other) {
  SharedRows& cell = cells_[row.split * splits_ + other.split];
  ++cell.rows;
  add_one(&cell.examples, {row, other}, most_, comes_before);
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
    if (cell.rows == 0) continue;
    std::vector<SharedRows>& cells = cell.of == cell.in ? content.repeated : content.shared;
    cells.push_back(cell);
    keep_first(&cells.back().examples, most_, comes_before);
  }
  return content;
}

EqualContent equal_content(const std::vector<const RowDigests*>& by_split, std::size_t most) {
  EqualContentCounter counter(by_split.size(), most);
  find_equal_rows(by_split, [&](const std::vector<RowOfSplit>& group) { counter.add(group); });
  return counter.content();
}

}  // namespace bascule
