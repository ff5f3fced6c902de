// SPDX-License-Identifier: Apache-2.0
// A replay of which no rank holds all of its gradients. The tape is replayed in parts; where a bucket's gradients are
// final the ranks of the node meet, an action takes them out of the ring, and the tape goes on in the places that the
// bucket before has left (src/plan/gradient_ring.h).
//
//   GradientRing ring(plan, tape, own_ring, group, action);   // before the seal
//   if (!ring.replay(threads, batch)) ...                     // in place of tape.replay()
#pragma once

#include <cstdint>
#include <vector>

#include "src/distributed/group.h"
#include "src/plan/gradient_ring.h"
#include "src/runtime/tape.h"

namespace bascule {

// The work on a bucket whose gradients are final.
class BucketAction {
 public:
  virtual ~BucketAction() = default;
  // After the seal, by all ranks of the node, which have just met: the bucket's pieces (GradientRingPlan::pieces_of)
  // lie in the ring of each, and stay there until this rank returns from its next call. Parameters may still be read by
  // what is left of backward. step: so many steps of the tape have run. False: another rank failed.
  virtual bool act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept = 0;
  // What a rank that hangs in it is said to do.
  virtual RankPhase phase() const noexcept { return RankPhase::kReducing; }
};

class GradientRing {
 public:
  // Before the seal. plan: of the graph that the tape was made of; the tape puts its gradients into own_ring, of
  // plan.bytes. group: null for a run of one process. action: outlives this.
  GradientRing(GradientRingPlan plan, const Tape& tape, float* own_ring, Group* group, BucketAction& action);
  GradientRing(const GradientRing&) = delete;
  GradientRing& operator=(const GradientRing&) = delete;

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

}  // namespace bascule
