// SPDX-License-Identifier: Apache-2.0
#include "src/update/gradient_ring.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/span.h"
#include "src/distributed/bucket_reducer.h"
#include "src/runtime/threads.h"
#include "src/update/blocks.h"

namespace bascule {

std::vector<std::int64_t> bucket_marks(const std::vector<std::int64_t>& final_steps, const ParameterLayout& layout,
                                       const std::vector<std::int64_t>& ends) {
  std::vector<std::int64_t> marks;
  for (const std::int64_t end : ends) {
    std::int64_t mark = 0;
    for (std::size_t p = 0; p < final_steps.size(); ++p) {
      const ParameterLayout::Place& place = layout.places[p];
      if (place.trained && place.offset < end) mark = std::max(mark, final_steps[p]);
    }
    marks.push_back(mark);
  }
  return marks;
}

BucketSums::BucketSums(const GradientRingPlan& plan, std::vector<float*> rings, int local_rank, float* sums,
                       const KernelTable& kernels)
    : rings_(std::move(rings)), sums_(sums), kernels_(kernels) {
  BASCULE_CHECK(rings_.size() <= kMostLocalRanks);
  chunks_of_bucket_ = {0};
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    share_out(plan.pieces_of(b), local_rank);
    chunks_of_bucket_.push_back(static_cast<std::int64_t>(chunks_.size()));
  }
}

// Equal parts of the bucket's elements, whatever the pieces: this rank's, cut at the pieces' bounds.
void BucketSums::share_out(Span<const GradientRingPlan::Piece> pieces, int local_rank) {
  constexpr std::int64_t kLine = kCacheLine / sizeof(float);
  std::int64_t lines = 0;
  for (const GradientRingPlan::Piece& piece : pieces) lines += divide_up(piece.elements, kLine);
  const BlockRange own = slice_of(lines, local_rank, static_cast<int>(rings_.size()));
  std::int64_t piece_begin = 0;  // in lines of the bucket
  for (const GradientRingPlan::Piece& piece : pieces) {
    const std::int64_t piece_end = piece_begin + divide_up(piece.elements, kLine);
    const std::int64_t begin = std::max(own.first, piece_begin), end = std::min(own.first + own.count, piece_end);
    for (std::int64_t at = (begin - piece_begin) * kLine; at < (end - piece_begin) * kLine;
         at += kUpdateBlockElements) {
      const std::int64_t last = std::min((end - piece_begin) * kLine, piece.elements);
      chunks_.push_back({piece.ring_offset + at, piece.offset + at, std::min(kUpdateBlockElements, last - at)});
    }
    piece_begin = piece_end;
  }
}

void BucketSums::sum(const Chunk& chunk) const noexcept {
  const float* terms[kMostLocalRanks];
  for (std::size_t rank = 0; rank < rings_.size(); ++rank) terms[rank] = rings_[rank] + chunk.ring_offset;
  kernels_.sum_terms({sums_ + chunk.offset, terms, static_cast<std::int64_t>(rings_.size()), chunk.count});
}

bool BucketSums::act(std::size_t bucket, std::int64_t step, Threads& threads) noexcept {
  const std::int64_t first = chunks_of_bucket_[bucket];
  run_tasks(
      threads, chunks_of_bucket_[bucket + 1] - first,
      [&](std::int64_t task) { sum(chunks_[static_cast<std::size_t>(first + task)]); }, step);
  return true;
}

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
