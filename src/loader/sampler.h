// SPDX-License-Identifier: Apache-2.0
// The order of samples and their batches.
#pragma once

#include <cstdint>

namespace bascule {

// The order of an epoch and how it is cut into batches and shares. All of it is arithmetic on (seed, epoch, position):
// nothing is stored, so a run resumes at any sample, and world size, workers and ring depth change nothing about the
// order.
//
//   const BatchCut cut{rows, world_size, batch_per_rank, drop_last};
//   const EpochOrder order(seed, epoch, rows);
//   const SampleRange batch = cut.batch(index);           // positions of the epoch, all ranks
//   const SampleRange share = cut.share(batch, rank);     // positions of one rank
//   const std::int64_t row = order.row(share.begin);

// A keyed permutation of 0 .. rows - 1: a Feistel network on just enough bits, walked until it lands below rows. `rows`
// is 1 .. 2^40. Constant time for a position (two steps of the walk on average). No allocation; usable after the seal.
class EpochOrder {
 public:
  EpochOrder(std::uint64_t seed, std::int64_t epoch, std::int64_t rows) noexcept;
  // The row at a position of the epoch; position is 0 .. rows - 1.
  std::int64_t row(std::int64_t position) const noexcept;
  std::int64_t rows() const noexcept { return rows_; }

 private:
  static constexpr int kRounds = 8;
  std::uint64_t encipher(std::uint64_t value) const noexcept;

  std::int64_t rows_;
  int low_bits_;  // the network swaps parts of these two widths
  int high_bits_;
  std::uint64_t round_key_[kRounds];
};

struct SampleRange {
  std::int64_t begin = 0;  // first position
  std::int64_t count = 0;
};

// An epoch of `rows` positions, cut into global batches of world_size x batch_per_rank.
struct BatchCut {
  std::int64_t rows = 0;
  std::int64_t world_size = 1;
  std::int64_t batch_per_rank = 1;
  bool drop_last = false;  // leave out a last batch that is smaller than the others
  // Samples are dealt to ranks in groups of this many, which divides batch_per_rank; only an epoch's last may be
  // smaller.
  std::int64_t dealt = 1;

  std::int64_t global_batch() const noexcept { return world_size * batch_per_rank; }
  // 0 where drop_last leaves nothing.
  std::int64_t batches_per_epoch() const noexcept;
  // Samples of an epoch that are in a batch: rows, or fewer with drop_last.
  std::int64_t samples_per_epoch() const noexcept;
  // Positions of global batch `index`, 0 .. batches_per_epoch() - 1.
  SampleRange batch(std::int64_t index) const noexcept;
  // Rank `rank`'s share of a global batch: contiguous, in rank order; counts differ by at most `dealt`, the first ranks
  // have the larger ones; the count may be 0.
  SampleRange share(SampleRange batch, std::int64_t rank) const noexcept;
};

// Which samples are in which batch of a stream, for one rank. Arithmetic alone, or looked up in a plan of distinct
// batches; no allocation, usable after the seal.

class DistinctBatches;

struct BatchPlace {
  std::int64_t epoch = 0;
  std::int64_t index = 0;           // in the epoch, among those of this rank
  std::int64_t first_position = 0;  // in the epoch
  std::int64_t count = 0;           // samples of this rank
  SampleRange all;                  // positions of all ranks
};

struct BatchDealing {
  std::uint64_t seed = 0;
  std::int64_t rows = 0;
  // true: training. An epoch is a keyed permutation, cut into batches of all ranks, each rank has its share of each.
  // false: evaluation. Rows in order, cut into batches of batch_per_rank; rank r has the whole batches r, r +
  // world_size, and so on, so that what is in a batch does not depend on world_size.
  bool shuffled = true;
  bool drop_last = false;  // shuffled only
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
  std::int64_t batch_per_rank = 1;
  std::int64_t dealt = 1;  // see BatchCut; shuffled only
  // The epochs' batches are these, cut alike for the same rows, and have no text twice; null: an epoch's order is cut
  // as it is. Shuffled only; outlives the order.
  const DistinctBatches* distinct = nullptr;
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
  // Batches of this rank, including empty shares; of distinct batches those of the first epoch.
  std::int64_t batches_per_epoch() const noexcept { return batches_per_epoch_; }
  // Samples of all ranks: at least as many as any epoch has.
  std::int64_t samples_per_epoch() const noexcept;
  // Most samples that a batch of this rank can have; 1 where all its shares are empty, as room is planned by it.
  std::int64_t max_samples() const noexcept;
  // Batch `number` of the stream, which counts on from epoch to epoch.
  BatchPlace place(std::int64_t number) const noexcept;
  // The rows of an epoch; for sequential streams the order is not asked.
  EpochOrder epoch_order(std::int64_t epoch) const noexcept;
  // order: of the epoch.
  std::int64_t row(const EpochOrder& order, std::int64_t epoch, std::int64_t position) const noexcept;

 private:
  BatchDealing dealing_;
  BatchCut cut_;
  std::int64_t batches_per_epoch_ = 0;
};

}  // namespace bascule
