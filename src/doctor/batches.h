// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"

namespace bascule {

// captions, pictures: of the training data, row by row; kNoContent: like no other. batch: at most as many as rows are
// counted.
BatchFigures batch_figures(const RowDigests& captions, const RowDigests& pictures, std::int64_t batch);

}  // namespace bascule
