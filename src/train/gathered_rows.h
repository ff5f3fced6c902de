// SPDX-License-Identifier: Apache-2.0
// The embeddings of all ranks, for a contrastive loss whose negatives come from all of them: each rank puts its own
// into memory that they share, and takes all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/distributed/group.h"
#include "src/graph/replay.h"

namespace bascule {

class GatheredRows {
 public:
  static std::size_t bytes(std::int64_t samples, std::int64_t width);

  // memory: bytes(samples, width), shared by the ranks of the group. Before the seal.
  GatheredRows(Group& group, std::byte* memory) : group_(group), memory_(memory) {}

  // What a replay is given; first and samples: of the batch. Lives as long as this. After the seal.
  Peers peers(std::int64_t first, std::int64_t samples) noexcept;

 private:
  void gather(float* const* out, const float* const* rows, std::int64_t count, std::int64_t width) noexcept;

  Group& group_;
  std::byte* memory_;
  std::int64_t first_ = 0, samples_ = 0;
};

}  // namespace bascule
