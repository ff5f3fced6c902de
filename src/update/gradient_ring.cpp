// SPDX-License-Identifier: Apache-2.0
#include "src/update/gradient_ring.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"

namespace bascule {

GradientRing::GradientRing(GradientRingPlan plan, const Tape& tape, float* own_ring, Group* group, BucketAction& action)
    : plan_(std::move(plan)), tape_(tape), own_ring_(own_ring), group_(group), action_(action) {
  for (const GradientRingPlan::Bucket& bucket : plan_.buckets) steps_.push_back(tape.steps_below(bucket.end_node));
}

// One meeting a bucket: whoever comes to the next one is done with this bucket, whose places are free only then.
bool GradientRing::finish_bucket(std::size_t bucket, Threads& threads) noexcept {
  const double began = monotonic_seconds();
  if (group_ != nullptr) group_->set_phase(action_.phase());
  if (group_ != nullptr && !group_->local_barrier()) return false;
  if (!action_.act(bucket, static_cast<std::int64_t>(steps_[bucket]), threads)) return false;
  if (group_ != nullptr) group_->set_phase(RankPhase::kComputing);
  reduction_seconds_ += monotonic_seconds() - began;
  return true;
}

bool GradientRing::replay(Threads& threads, const Replay& replay) noexcept {
  reduction_seconds_ = 0.0;
  std::size_t done = 0;
  for (std::size_t b = 0; b < steps_.size(); ++b) {
    tape_.replay_part(threads, replay, done, steps_[b]);
    done = steps_[b];
    if (!finish_bucket(b, threads)) return false;
  }
  tape_.replay_part(threads, replay, done, tape_.step_count());
  return true;
}

void GradientRing::zero_bucket(std::size_t bucket) noexcept {
  for (const GradientRingPlan::Piece& piece : plan_.pieces_of(bucket))
    std::fill_n(own_ring_ + piece.ring_offset, piece.elements, 0.0f);
}

bool GradientRing::replay_without_samples(Threads& threads) noexcept {
  reduction_seconds_ = 0.0;
  for (std::size_t b = 0; b < steps_.size(); ++b) {
    zero_bucket(b);
    if (!finish_bucket(b, threads)) return false;
  }
  return true;
}

}  // namespace bascule
