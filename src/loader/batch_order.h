// SPDX-License-Identifier: Apache-2.0
// Which samples are in which batch of a stream, for one rank. Arithmetic alone, see sampler.h; no allocation, usable
// after the seal.
#pragma once

#include <cstdint>

#include "src/loader/sampler.h"

namespace bascule {

struct BatchPlace {
  std::int64_t epoch = 0;
  std::int64_t index = 0;           // in the epoch, among those of this rank
  std::int64_t first_position = 0;  // in the epoch
  std::int64_t count = 0;           // samples of this rank
};

struct BatchDealing {
  std::uint64_t seed = 0;
  std::int64_t rows = 0;
  bool shuffled = true;  // see StreamSettings
  bool drop_last = false;
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
  std::int64_t batch_per_rank = 1;
  std::int64_t dealt = 1;  // see BatchCut; shuffled only
};

class BatchOrder {
 public:
  explicit BatchOrder(const BatchDealing& dealing) noexcept;

  std::int64_t rows() const noexcept { return dealing_.rows; }
  const BatchCut& cut() const noexcept { return cut_; }
  // The run's, which the order of an epoch comes from.
  std::uint64_t seed() const noexcept { return dealing_.seed; }
  // Position i of every epoch is row i: the stream of an evaluation.
  bool is_sequential() const noexcept { return !dealing_.shuffled; }
  // Batches of this rank, including empty shares.
  std::int64_t batches_per_epoch() const noexcept { return batches_per_epoch_; }
  // Samples of all ranks.
  std::int64_t samples_per_epoch() const noexcept { return cut_.samples_per_epoch(); }
  // Most samples that a batch of this rank can have; 1 where all its shares are empty, as room is planned by it.
  std::int64_t max_samples() const noexcept;
  // Batch `number` of the stream, which counts on from epoch to epoch.
  BatchPlace place(std::int64_t number) const noexcept;
  // The rows of an epoch; for sequential streams the order is not asked.
  EpochOrder epoch_order(std::int64_t epoch) const noexcept;
  std::int64_t row(const EpochOrder& order, std::int64_t position) const noexcept {
    return dealing_.shuffled ? order.row(position) : position;
  }

 private:
  BatchDealing dealing_;
  BatchCut cut_;
  std::int64_t batches_per_epoch_ = 0;
};

}  // namespace bascule
