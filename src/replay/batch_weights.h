// SPDX-License-Identifier: Apache-2.0
// The weight of a batch in its update, by term of the loss. A term is a mean over rows of one stream (samples, labelled
// tokens, ...), and an update is to be the mean over all its rows, however they are cut into ranks and micro-batches.
// A batch has the mean over its own rows, so its weight is
//
//   w = rows_own / rows_update = share of_all factor, where
//
//   share  = rows_own / rows_all      this rank's part of the micro-batch of all ranks
//   of_all = rows_all / unit          the micro-batch's part of the update
//   factor = unit / rows_update       multiplied in by the update, as only its last micro-batch tells rows_update
//
//   weights.begin(units);                         // before an update's first micro-batch
//   weights.count(own, all);                      // each micro-batch: then share() and of_all() are its own
//   settings.gradient_factor = weights.factor();  // after the last one
#pragma once

#include <array>
#include <cstddef>

#include "src/base/batch.h"

namespace bascule {

using RowsByTerm = std::array<double, kMaxLossTerms>;

class BatchWeights {
 public:
  explicit BatchWeights(std::size_t terms) : terms_(terms) {}

  // units: any numbers, where the loss has one term. Several terms share a gradient, and one factor cannot divide them
  // apart: they need their rows_update. A unit below 1 is taken as 1.
  void begin(const RowsByTerm& units) noexcept;
  // A micro-batch: rows of this rank, and of all ranks.
  void count(const RowsByTerm& own, const RowsByTerm& all) noexcept;

  double share(std::size_t term) const noexcept { return share_[term]; }
  double of_all(std::size_t term) const noexcept { return of_all_[term]; }
  // Whether the update's micro-batches so far have a row that the loss is a mean over.
  bool has_rows() const noexcept { return counted_[0] > 0.0 || (terms_ > 1 && counted_[1] > 0.0); }
  double factor() const noexcept { return counted_[0] > 0.0 ? unit_[0] / counted_[0] : 1.0; }

 private:
  std::size_t terms_;
  RowsByTerm unit_ = {1.0, 1.0}, counted_ = {}, share_ = {1.0, 1.0}, of_all_ = {1.0, 1.0};
};

}  // namespace bascule
