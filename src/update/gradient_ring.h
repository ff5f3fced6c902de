// SPDX-License-Identifier: Apache-2.0
// Gradients taken bucket by bucket: when a bucket is complete, its sum, the replay.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"
#include "src/distributed/group.h"
#include "src/graph/parameters.h"
#include "src/plan/gradient_ring.h"
#include "src/runtime/tape.h"

namespace bascule {

// When a bucket of gradients may be summed over the ranks while backward still runs: after how many operations of the
// tape every gradient that lies in it is final. Before the seal.

// final_steps: of each parameter, Tape::steps_until_final(). ends: where each bucket ends in the trained range, in
// elements, ascending. A bucket waits for the gradients before it too, so that the marks never fall.
std::vector<std::int64_t> bucket_marks(const std::vector<std::int64_t>& final_steps, const ParameterLayout& layout,
                                       const std::vector<std::int64_t>& ends);

// A replay of which no rank holds all of its gradients. The tape is replayed in parts; where a bucket's gradients are
// final the ranks of the node meet, an action takes them out of the ring, and the tape goes on in the places that the
// bucket before has left (src/plan/gradient_ring.h).
//
//   GradientRing ring(plan, tape, own_ring, group, action);   // before the seal
//   if (!ring.replay(threads, batch)) ...                     // in place of tape.replay()

// The work on a bucket whose gradients are final.
class BucketAction {
 public:
  virtual ~BucketAction() = default;
  // After the seal, by all ranks of the node, which have just met: the bucket's pieces (GradientRingPlan::pieces_of)
  // lie in the ring of each, and stay there until this rank returns from its next call. Parameters may still be read by
  // what is left of backward. step: so many steps of the tape have run. False: another rank failed.
  virtual bool act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept = 0;
  // The phase named for a rank that hangs in it.
  virtual RankPhase phase() const noexcept { return RankPhase::kReducing; }
};

class GradientRing : NonCopyable {
 public:
  // Before the seal. plan: of the graph that the tape was made of; the tape puts its gradients into own_ring, of
  // plan.bytes. group: null for a run of one process. action: outlives this.
  GradientRing(GradientRingPlan plan, const Tape& tape, float* own_ring, Group* group, BucketAction& action);

  // After the seal, by all ranks of the node together. False: another rank failed.
  [[nodiscard]] bool replay(Threads& threads, const Replay& replay) noexcept;
  // The same for a rank whose batch is empty: it contributes zeros.
  [[nodiscard]] bool replay_without_samples(Threads& threads) noexcept;
  // Time that the last replay spent meeting, and in the action.
  double reduction_seconds() const noexcept { return reduction_seconds_; }

 private:
  void zero_bucket(std::size_t bucket) noexcept;
  bool finish_bucket(std::size_t bucket, Threads& threads) noexcept;

  const GradientRingPlan plan_;
  const Tape& tape_;
  float* const own_ring_;
  Group* const group_;
  BucketAction& action_;
  std::vector<std::size_t> steps_;  // by bucket: of the tape, up to where it is final
  double reduction_seconds_ = 0.0;
};

// Stages 2 and 3 of `sharded` on a node: each bucket of the gradient ring is summed over the ranks, into the range of
// sums that they share. A rank sums its part of the bucket.

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
