// SPDX-License-Identifier: Apache-2.0
// Rows with equal content, within and across splits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "src/doctor/finding.h"

namespace bascule {

// Rows of several splits that have the same content, told by 64-bit digests (XXH3): two different contents among a
// million have the same one with a chance of 3e-8. Memory: 8 bytes a row for its digest, which the caller keeps, and 16
// while groups are looked for.

// A row's digest stands at its number. kNoContent: the row has none, and is in no group.
using RowDigests = std::vector<std::uint64_t>;
inline constexpr std::uint64_t kNoContent = 0;

struct RowOfSplit {
  std::uint32_t split = 0, row = 0;
  bool operator<(const RowOfSplit& other) const { return split != other.split ? split < other.split : row < other.row; }
};

// The digest of two contents together; kNoContent where one of them is.
std::uint64_t digest_of_both(std::uint64_t first, std::uint64_t second) noexcept;

// Calls `see` for every group of two rows or more, ascending within; groups in the order of their digests. by_split: by
// the number of the split; at most 2^32 rows each.
using SeeGroup = std::function<void(const std::vector<RowOfSplit>& group)>;
void find_equal_rows(const std::vector<const RowDigests*>& by_split, const SeeGroup& see);

// The sizes of all groups of one split, single rows included; in no meaningful order.
std::vector<std::int64_t> group_sizes(RowDigests digests);

// Content that several splits share, or one split has twice: counted over the groups of equal rows.

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
