// SPDX-License-Identifier: Apache-2.0
#include "src/loader/sampler.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/philox.h"
#include "src/loader/distinct_batches.h"

namespace bascule {

// A sequential epoch is cut as if for one rank; its whole batches are then dealt.
BatchOrder::BatchOrder(const BatchDealing& dealing) noexcept
    : dealing_(dealing),
      cut_{dealing.rows, dealing.shuffled ? dealing.world_size : 1, dealing.batch_per_rank,
           dealing.shuffled && dealing.drop_last, dealing.shuffled ? dealing.dealt : 1} {
  const std::int64_t batches = cut_.batches_per_epoch();
  if (dealing.distinct != nullptr) {
    BASCULE_CHECK(dealing.shuffled && dealing.dealt == 1);
    batches_per_epoch_ = dealing.distinct->batches(0);
    return;
  }
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
  if (const DistinctBatches* const distinct = dealing_.distinct) {
    place.epoch = distinct->epoch_of_batch(number);
    place.index = number - distinct->batches_before(place.epoch);
    place.all = distinct->batch(place.epoch, place.index);
  } else {
    place.epoch = number / batches_per_epoch_;
    place.index = number % batches_per_epoch_;
    place.all = cut_.batch(dealing_.shuffled ? place.index : place.index * dealing_.world_size + dealing_.rank);
  }
  const SampleRange mine = dealing_.shuffled ? cut_.share(place.all, dealing_.rank) : place.all;
  place.first_position = mine.begin;
  place.count = mine.count;
  return place;
}

std::int64_t BatchOrder::samples_per_epoch() const noexcept {
  return dealing_.distinct != nullptr ? dealing_.rows : cut_.samples_per_epoch();
}

std::int64_t BatchOrder::row(const EpochOrder& order, std::int64_t epoch, std::int64_t position) const noexcept {
  if (dealing_.distinct != nullptr) return order.row(dealing_.distinct->plain(epoch, position));
  return dealing_.shuffled ? order.row(position) : position;
}

EpochOrder BatchOrder::epoch_order(std::int64_t epoch) const noexcept {
  return EpochOrder(dealing_.seed, epoch, dealing_.rows);
}

namespace {

constexpr std::uint32_t kOrderUse = 0x6f726465u;  // the sampler's key among those derived from the run's seed
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
// Fewer bits than this and the network's few rounds would mix badly; small numbers of rows walk a little longer
// instead.
constexpr int kFewestBits = 6;

std::uint64_t low_mask(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

// Every bit of the outcome depends on every bit of the value (the finalizer of splitmix64).
std::uint64_t scramble(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

}  // namespace

EpochOrder::EpochOrder(std::uint64_t seed, std::int64_t epoch, std::int64_t rows) noexcept : rows_(rows) {
  BASCULE_CHECK(rows >= 1 && rows <= kMostRows);
  int bits = kFewestBits;
  while ((std::int64_t{1} << bits) < rows) ++bits;
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  const PhiloxKey key = derive_key(seed, kOrderUse);
  const std::uint64_t wide_epoch = static_cast<std::uint64_t>(epoch);
  for (int round = 0; round < kRounds; ++round) {
    const PhiloxCounter counter{{static_cast<std::uint32_t>(round), static_cast<std::uint32_t>(wide_epoch),
                                 static_cast<std::uint32_t>(wide_epoch >> 32), 0}};
    round_key_[round] = philox4x32(counter, key).wide(0);
  }
}

// Two rounds at a time: the high part is changed by a function of the low part, then the low part by one of the high
// part. Each can be undone, so different values stay different.
std::uint64_t EpochOrder::encipher(std::uint64_t value) const noexcept {
  std::uint64_t low = value & low_mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high ^= scramble(low ^ round_key_[round]) & low_mask(high_bits_);
    low ^= scramble(high ^ round_key_[round + 1]) & low_mask(low_bits_);
  }
  return high << low_bits_ | low;
}

std::int64_t EpochOrder::row(std::int64_t position) const noexcept {
  BASCULE_DCHECK(position >= 0 && position < rows_);
  std::uint64_t value = static_cast<std::uint64_t>(position);
  do {
    value = encipher(value);
  } while (value >= static_cast<std::uint64_t>(rows_));
  return static_cast<std::int64_t>(value);
}

std::int64_t BatchCut::batches_per_epoch() const noexcept {
  return (drop_last ? rows : rows + global_batch() - 1) / global_batch();
}

std::int64_t BatchCut::samples_per_epoch() const noexcept {
  return std::min(rows, batches_per_epoch() * global_batch());
}

SampleRange BatchCut::batch(std::int64_t index) const noexcept {
  BASCULE_DCHECK(index >= 0 && index < batches_per_epoch());
  const std::int64_t begin = index * global_batch();
  return SampleRange{begin, std::min(global_batch(), rows - begin)};
}

SampleRange BatchCut::share(SampleRange batch, std::int64_t rank) const noexcept {
  BASCULE_DCHECK(rank >= 0 && rank < world_size);
  const std::int64_t parts = (batch.count + dealt - 1) / dealt;
  const std::int64_t each = parts / world_size, with_one_more = parts % world_size;
  const std::int64_t first_part = rank * each + std::min(rank, with_one_more);
  const std::int64_t own_parts = each + (rank < with_one_more ? 1 : 0);
  const std::int64_t begin = std::min(first_part * dealt, batch.count);
  return SampleRange{batch.begin + begin, std::min(own_parts * dealt, batch.count - begin)};
}

}  // namespace bascule
