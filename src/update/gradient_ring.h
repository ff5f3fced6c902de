// SPDX-License-Identifier: Apache-2.0
// Stages 2 and 3 of `sharded` on a node: no rank holds all of its gradients. The tape is replayed in parts; where a
// bucket's gradients are final the ranks meet, each sums its part of the bucket into the range of sums that they share,
// and the tape goes on in the places that the bucket before has left (src/plan/gradient_ring.h).
//
//   GradientRing ring(plan, tape, rings, sums, kernels, group);   // before the seal
//   if (!ring.replay(threads, batch)) ...                         // in place of tape.replay()
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "src/distributed/group.h"
#include "src/plan/gradient_ring.h"
#include "src/runtime/tape.h"

namespace bascule {

class GradientRing {
 public:
  // Before the seal. plan: of the graph that the tape was made of; the tape puts its gradients into this rank's ring.
  // rings: by local rank. sums: the trained range, shared by the ranks of the node; zero, where no gradient is written.
  GradientRing(GradientRingPlan plan, const Tape& tape, std::vector<float*> rings, float* sums,
               const KernelTable& kernels, Group& group);
  GradientRing(const GradientRing&) = delete;
  GradientRing& operator=(const GradientRing&) = delete;

  // After the seal, by all ranks of the node together. The sums are whole when the ranks have met once more. False:
  // another rank failed.
  [[nodiscard]] bool replay(Threads& threads, const Replay& replay) noexcept;
  // The same for a rank whose batch is empty: it contributes zeros.
  [[nodiscard]] bool replay_without_samples(Threads& threads) noexcept;
  // Time that the last replay spent meeting and summing.
  double reduction_seconds() const noexcept { return reduction_seconds_; }

 private:
  struct Chunk {  // what one task sums
    std::int64_t ring_offset = 0, offset = 0, count = 0;
  };
  static std::int64_t chunk_tasks(const void* self, const Replay& replay);
  static void sum_chunk(const void* self, const Replay& replay, std::int64_t task, int thread);
  void share_out_bucket(std::size_t first_piece, std::size_t end_piece);
  void zero_bucket(std::size_t bucket) noexcept;
  bool sum_bucket(std::size_t bucket, Threads& threads) noexcept;

  const GradientRingPlan plan_;
  const Tape& tape_;
  const std::vector<float*> rings_;
  float* const sums_;
  const KernelTable& kernels_;
  Group& group_;
  std::vector<std::size_t> steps_;              // by bucket: of the tape, up to where it is final
  std::vector<Chunk> chunks_;                   // of this rank
  std::vector<std::int64_t> chunks_of_bucket_;  // bucket b has those from [b] to [b + 1]
  Step sum_step_;
  std::size_t bucket_ = 0;  // being summed
  double reduction_seconds_ = 0.0;
};

}  // namespace bascule
