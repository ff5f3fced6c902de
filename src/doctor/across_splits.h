// SPDX-License-Identifier: Apache-2.0
// Content that several splits share, or one split has twice: counted over the groups of equal rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"

namespace bascule {

// Rows of split `of` whose content split `in` has too.
struct SharedRows {
  std::size_t of = 0, in = 0;
  std::int64_t rows = 0;
  std::vector<std::pair<RowOfSplit, RowOfSplit>> examples;  // one of each; the first rows
};

struct EqualContent {
  std::vector<SharedRows> shared;    // by the numbers of the splits; those with rows alone
  std::vector<SharedRows> repeated;  // of == in: rows that are equal to an earlier one of their split
};

// by_split: as in find_equal_rows(). most: examples of each.
EqualContent equal_content(const std::vector<const RowDigests*>& by_split, std::size_t most = kMostExamples);
// The same from groups: `splits` of them.
class EqualContentCounter {
 public:
  explicit EqualContentCounter(std::size_t splits, std::size_t most = kMostExamples);
  // Rows that are equal, ascending.
  void add(const std::vector<RowOfSplit>& group);
  // A row, and one of an earlier split, or an earlier one of its own, that is equal to it: once for each such split.
  void add(RowOfSplit row, RowOfSplit other);
  EqualContent content() const;

 private:
  std::size_t splits_, most_;
  std::vector<SharedRows> cells_;  // [of * splits + in]
};

}  // namespace bascule
