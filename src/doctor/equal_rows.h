// SPDX-License-Identifier: Apache-2.0
// Rows with equal content, within and across splits, and what they cost contrastive training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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

// By size: how many groups of one split have it, single rows included.
std::map<std::int64_t, std::int64_t> group_sizes(const RowDigests& digests);

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

// False negatives of contrastive training, and the loss below which it cannot fall.
//
// A batch is B rows drawn from the N rows of the training data, each set of B equally likely: a shuffled epoch cut into
// batches. The loss takes every other row of the batch for a negative, also one with the same picture or the same
// caption. Let a row have a caption that n_t rows of the data have, a picture that n_p have, and both together n_tp.
//
// Pairs. P = sum C(n_t, 2) + sum C(n_p, 2) - sum C(n_tp, 2) pairs of the data are equal in one of the two; each is in a
// batch with the chance B (B - 1) / (N (N - 1)). A row with d such partners has one in its batch with the chance
// 1 - C(N - 1 - d, B - 1) / C(N - 1, B - 1).
//
// Floor. The loss is the mean of three cross-entropies of a batch, each of which asks a row for its column: text for
// picture, text for cross embedding, picture for cross embedding. In a batch let g_t rows have a row's caption, g_p its
// picture, g_tp both. Whatever the embeddings are, they are functions of caption and picture (of both: the cross
// embedding), so equal captions give equal rows and equal pictures equal columns:
// - text for picture: the g_p equal columns share their probability evenly, and the g_t equal rows have one
//   distribution for all of their pictures. The mean of -ln p over rows with one distribution is least where p follows
//   the frequencies (Gibbs), so row i adds at least ln(g_p g_t / g_tp).
// - text for cross: a column belongs to one caption and picture; the same argument gives ln(g_tp g_t / g_tp) = ln g_t.
// - picture for cross: ln g_p.
// Each bound is the infimum of its batch for embeddings that are free otherwise. A row's floor is (2 ln g_t + 2 ln g_p
// - ln g_tp) / 3, and by linearity the expectation over batches needs the three counts alone:
//   floor = (2 sum h(n_t) + 2 sum h(n_p) - sum h(n_tp)) / (3 N), sums over rows,
//   h(n) = E ln(1 + X), X hypergeometric: how many of n - 1 rows are among B - 1 drawn from N - 1.
//
// The floor is that of a model without dropout and random changes of pictures, as in evaluation. With them, equal
// captions or pictures have embeddings of their own, and a row's cross embedding is computed from the same noise: a
// model could find its own column by it. That can lower the second and the third bound down to 0, and leaves the first.

// captions, pictures: of the training data, row by row; kNoContent: like no other. batch: at most as many as rows are
// counted.
BatchFigures batch_figures(const RowDigests& captions, const RowDigests& pictures, std::int64_t batch);

}  // namespace bascule
