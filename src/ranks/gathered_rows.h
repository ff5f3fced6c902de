// SPDX-License-Identifier: Apache-2.0
// The embeddings of all ranks, for a contrastive loss whose negatives come from all of them: each rank puts its own
// into memory that the ranks of a node share, the nodes exchange theirs, and each rank takes all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/distributed/group.h"
#include "src/graph/replay.h"
#include "src/loader/sampler.h"

namespace bascule {

class GatheredRows {
 public:
  static std::size_t bytes(std::int64_t samples, std::int64_t width);

  // memory: bytes(samples, width), shared by the ranks of a node. Before the seal.
  GatheredRows(Group& group, std::byte* memory, std::int64_t width) : group_(group), memory_(memory), width_(width) {}

  // The argument of a replay for its share of batch `index`. Lives as long as this. After the seal.
  Peers peers(const BatchCut& cut, std::int64_t index) noexcept;

 private:
  void gather(float* const* out, const float* const* rows, std::int64_t count) noexcept;

  Group& group_;
  std::byte* memory_;  // by sample: its rows of all operands
  const std::int64_t width_;
  SampleRange own_, node_;  // from the batch's first sample
  std::int64_t samples_ = 0;
};

}  // namespace bascule
