// SPDX-License-Identifier: Apache-2.0
// The parts of a batch that ranks share: gathered embeddings, and samples that were replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/distributed/group.h"
#include "src/graph/launch.h"
#include "src/loader/sampler.h"
#include "src/loader/stream.h"

namespace bascule {

// The embeddings of all ranks, for a contrastive loss whose negatives come from all of them: each rank puts its own
// into memory that the ranks of a node share, the nodes exchange theirs, and each rank takes all.

class GatheredRows {
 public:
  static std::size_t bytes(std::int64_t samples, std::int64_t cols);

  // memory: bytes(samples, cols), shared by the ranks of a node. cols: of all operands together. Before the seal.
  GatheredRows(Group& group, std::byte* memory, std::int64_t cols) : group_(group), memory_(memory), cols_(cols) {}

  // The argument of a replay for its share of the batch of all ranks. Lives as long as this. After the seal.
  Peers peers(const BatchCut& cut, SampleRange all) noexcept;

 private:
  void gather(float* const* out, const float* const* rows, int operands, std::int64_t count,
              std::int64_t width) noexcept;

  Group& group_;
  std::byte* memory_;  // by sample: its rows of all operands
  const std::int64_t cols_;
  SampleRange own_, node_;  // from the batch's first sample
  std::int64_t samples_ = 0;
};

// The samples that all ranks replaced, for a checkpoint: each rank puts its own list into memory that the ranks of a
// node share, the nodes exchange theirs, and rank 0 makes one of them, in order of epoch and position.

class ReplacedSamples {
 public:
  static std::size_t bytes(int ranks, std::int64_t most);

  // memory: bytes(group.size(), most), shared by the ranks of a node; most: of a list. Before the seal.
  ReplacedSamples(Group& group, std::int64_t most, std::byte* memory);

  // After the seal, as below, by all ranks together: what this rank replaced in a stream, in order, and how many that
  // were, beside those of all others. False: the run has failed.
  [[nodiscard]] bool gather(const Stream& stream) noexcept;
  // Then: the first ones of all lists, at most `most`.
  Span<const ReplacedSample> merge() noexcept;
  // Then too: how many all ranks replaced, also those for which a list had no room.
  std::int64_t bad_samples() const noexcept;

 private:
  struct List {
    std::int64_t bad_samples;
    std::int64_t count;
    ReplacedSample samples[1];  // `most` of them
  };
  List& list(int rank) const noexcept;

  Group& group_;
  std::size_t most_;
  std::byte* memory_;
  std::vector<std::size_t> taken_;  // by rank, while merging
  std::vector<ReplacedSample> merged_;
};

}  // namespace bascule
