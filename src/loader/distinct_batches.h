// SPDX-License-Identifier: Apache-2.0
// Batches in which no text occurs twice.
//
// Of each epoch they are planned before the seal: the order of its rows, and where its batches end. A row of the
// epoch's order joins the batch unless one of its texts is, byte for byte, a text of any column of a row that is in it;
// else it waits for the next batch, which begins with those that wait, in order. Where no row that is left can join,
// the batch stays smaller than the others, and is left out where BatchCut::drop_last is set. So epochs may have
// different numbers of batches. Source: NoDuplicatesBatchSampler of sentence-transformers.
//
//   DistinctBatches batches(manifest, seed, cut);
//   while (...) batches.add_epoch();
//   batches.end();
//   const SampleRange batch = batches.batch(epoch, index);             // positions of the epoch, all ranks
//   const std::int64_t position = batches.plain(epoch, batch.begin);  // of the same row in EpochOrder
//
// Memory: 4 bytes a batch, and 8 for each run of rows that follow each other in both orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/index/manifest.h"
#include "src/loader/sampler.h"

namespace bascule {

class DistinctBatches {
 public:
  // Reads all texts. Before the seal, as add_epoch(). Throws Error kData for more rows than 2^32.
  DistinctBatches(const Manifest& manifest, std::uint64_t seed, const BatchCut& cut);

  // Whether two rows share a text. Else an epoch's order, cut as it is, has none twice in a batch.
  bool has_duplicates() const noexcept { return different_texts_ > 1; }
  // Plans the next epoch.
  void add_epoch();

  // The texts are not looked at again: frees what add_epoch() needs.
  void end() { texts_ = {}; }

  // After the seal too, as all below.
  std::int64_t epochs() const noexcept { return static_cast<std::int64_t>(epochs_.size()); }
  // Of the epochs before: batches and samples.
  std::int64_t batches_before(std::int64_t epoch) const noexcept { return before_[index(epoch)].batches; }
  std::int64_t samples_before(std::int64_t epoch) const noexcept { return before_[index(epoch)].samples; }
  std::int64_t batches(std::int64_t epoch) const noexcept { return batches_before(epoch + 1) - batches_before(epoch); }
  // The epoch of batch `number`, which counts on from epoch to epoch.
  std::int64_t epoch_of_batch(std::int64_t number) const noexcept;
  SampleRange batch(std::int64_t epoch, std::int64_t index) const noexcept;
  std::int64_t plain(std::int64_t epoch, std::int64_t position) const noexcept;

  // Batches that are smaller than the others, and, with drop_last, rows that are left out, in all epochs.
  std::int64_t small_batches() const noexcept { return small_batches_; }
  std::int64_t rows_left_out() const noexcept { return rows_left_out_; }
  std::size_t bytes() const noexcept;
  // About as many, and seldom fewer, with batches cut like `other`: equal texts meet as much more often as batches are
  // larger.
  std::size_t bytes_like(const BatchCut& other) const noexcept;

 private:
  struct Epoch {
    std::vector<std::uint32_t> run_begins, run_positions;  // of each run: in this order, and in EpochOrder's
    std::vector<std::uint32_t> ends;                       // of batches
  };
  struct Before {
    std::int64_t batches = 0, samples = 0;
  };
  class Walk;

  static std::size_t index(std::int64_t epoch) noexcept { return static_cast<std::size_t>(epoch); }

  const std::uint64_t seed_;
  const BatchCut cut_;
  const std::size_t columns_;
  // By row and column, the number of a text that other rows have too, from 1 on; 0: no other row has it.
  std::vector<std::uint32_t> texts_;
  std::uint32_t different_texts_ = 0;
  std::vector<Epoch> epochs_;
  std::vector<Before> before_ = std::vector<Before>(1);
  std::int64_t small_batches_ = 0, rows_left_out_ = 0;
};

}  // namespace bascule
