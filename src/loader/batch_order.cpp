// SPDX-License-Identifier: Apache-2.0
#include "src/loader/batch_order.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {

// A sequential epoch is cut as if for one rank; its whole batches are then dealt.
BatchOrder::BatchOrder(const BatchDealing& dealing) noexcept
    : dealing_(dealing),
      cut_{dealing.rows, dealing.shuffled ? dealing.world_size : 1, dealing.batch_per_rank,
           dealing.shuffled && dealing.drop_last, dealing.shuffled ? dealing.dealt : 1} {
  const std::int64_t batches = cut_.batches_per_epoch();
  batches_per_epoch_ =
      dealing.shuffled ? batches : batches / dealing.world_size + (dealing.rank < batches % dealing.world_size ? 1 : 0);
}

std::int64_t BatchOrder::max_samples() const noexcept {
  const SampleRange largest{0, std::min(cut_.global_batch(), dealing_.rows)};
  const std::int64_t mine = dealing_.shuffled ? cut_.share(largest, dealing_.rank).count : largest.count;
  return std::max<std::int64_t>(1, mine);
}

BatchPlace BatchOrder::place(std::int64_t number) const noexcept {
  BASCULE_DCHECK(number >= 0 && batches_per_epoch_ > 0);
  BatchPlace place;
  place.epoch = number / batches_per_epoch_;
  place.index = number % batches_per_epoch_;
  const SampleRange mine = dealing_.shuffled ? cut_.share(cut_.batch(place.index), dealing_.rank)
                                             : cut_.batch(place.index * dealing_.world_size + dealing_.rank);
  place.first_position = mine.begin;
  place.count = mine.count;
  return place;
}

EpochOrder BatchOrder::epoch_order(std::int64_t epoch) const noexcept {
  return EpochOrder(dealing_.seed, epoch, dealing_.rows);
}

}  // namespace bascule
