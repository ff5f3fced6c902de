// SPDX-License-Identifier: Apache-2.0
// Stages 2 and 3 of `sharded` on a node: each bucket of the gradient ring is summed over the ranks, into the range of
// sums that they share. A rank sums its part of the bucket.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "src/plan/gradient_ring.h"
#include "src/update/gradient_ring.h"

namespace bascule {

class BucketSums final : public BucketAction {
 public:
  // Before the seal. rings: by local rank. sums: the trained range, shared by the ranks of the node; zero, where no
  // gradient is written. They are whole when the ranks have met once more.
  BucketSums(const GradientRingPlan& plan, std::vector<float*> rings, int local_rank, float* sums,
             const KernelTable& kernels);

  bool act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept override;

 private:
  struct Chunk {  // what one task sums
    std::int64_t ring_offset = 0, offset = 0, count = 0;
  };
  void share_out(Span<const GradientRingPlan::Piece> pieces, int local_rank);
  void sum(const Chunk& chunk) const noexcept;

  const std::vector<float*> rings_;
  float* const sums_;
  const KernelTable& kernels_;
  std::vector<Chunk> chunks_;                   // of this rank
  std::vector<std::int64_t> chunks_of_bucket_;  // bucket b has those from [b] to [b + 1]
};

}  // namespace bascule
